"""Facts about what shards hold beside what they may hold."""

from asyncio import TaskGroup
from collections.abc import Iterable, Mapping

import msgspec
import pytest

from sharder.controllers.shard_loads import (
    MAX_RESOURCES,
    SHOW_SECONDS,
    Load,
    loads_of,
    shard_statuses,
)
from sharder.core.api.lease import Lease
from sharder.core.api.ring import PlacementSpec, ShardStatus
from sharder.core.leases.register import Membership
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    POOL_ANNOTATION,
    ZONE_LABEL,
    RingName,
    ShardName,
)
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import ObjectStats, ShardLoad
from tests.support.cluster import Cluster
from tests.support.values import DEMO, NOW, A, B, C, lease, ring

AT = 1000.0


def stats(**by_shard: int) -> ObjectStats:
    """What is counted; `a` stands for the shard `shard-a`."""
    return ObjectStats(
        objects=sum(by_shard.values()),
        unassigned=0,
        draining=0,
        by_shard={ShardName(f"shard-{name}"): number for name, number in by_shard.items()},
        has_room=None,
        unowned=0,
    )


def annotated(name: ShardName, **annotations: str) -> Lease:
    """A Lease with annotations, `capacity` and so on, and with the label `zone`."""
    keys = {
        "capacity": CAPACITY_ANNOTATION,
        "cordoned": CORDONED_ANNOTATION,
        "evacuate": EVACUATE_ANNOTATION,
        "pool": POOL_ANNOTATION,
    }
    of = lease(name, labels={ZONE_LABEL: annotations.pop("zone", "")})
    said = {keys[key]: value for key, value in annotations.items()}
    return msgspec.structs.replace(
        of, metadata=msgspec.structs.replace(of.metadata, annotations=said)
    )


class Seen:
    """A ring whose Leases were seen at the time `AT`."""

    def __init__(self, leases: Iterable[Lease], *, per_shard_capacity: int | None = None) -> None:
        self.membership = Membership(AT)
        self.membership.replace(leases, AT)
        placement = PlacementSpec(per_shard_capacity=per_shard_capacity)
        spec = msgspec.structs.replace(ring().spec, placement=placement)
        self.snapshot: RingSnapshot = build(
            msgspec.structs.replace(ring(), spec=spec),
            members=self.membership.members(DEMO, AT),
            namespaces=frozenset({"default"}),
        )

    def statuses(self, most: int = 10, /, **by_shard: int) -> list[ShardStatus]:
        return shard_statuses(
            self.snapshot, stats(**by_shard), self.membership, now=NOW, monotonic=AT, most=most
        )


def capacity(text: str, *, per_shard_capacity: int | None = None) -> Mapping[str, str]:
    """The capacity that is shown of a shard that declares `text`."""
    seen = Seen([annotated(A, capacity=text)], per_shard_capacity=per_shard_capacity)
    return seen.statuses()[0].capacity


def test_only_the_shards_that_have_most_are_described() -> None:
    seen = Seen([lease(name) for name in (A, B, C)])

    found = seen.statuses(2, a=1, b=7, c=3)

    assert [(status.name, status.objects) for status in found] == [(B, 7), (C, 3)]


def test_a_shard_shows_what_it_is_and_what_it_has() -> None:
    seen = Seen(
        [annotated(A, zone="z1", pool="p", cordoned="true", capacity="objects=60,cpu=500m")]
    )

    assert seen.statuses(a=33) == [
        ShardStatus(
            name=A,
            state="ready",
            objects=33,
            load={"objects": "33"},
            capacity={"objects": "60", "cpu": "0.5"},
            zone="z1",
            pool="p",
            cordoned=True,
        )
    ]


def test_a_shard_that_is_being_evacuated_shows_it() -> None:
    (status,) = Seen([annotated(A, evacuate="true")]).statuses()

    assert (status.cordoned, status.evacuating) == (False, True)


def test_a_shard_that_has_nothing_shows_none_and_one_that_is_no_shard_is_not_shown() -> None:
    seen = Seen([lease(B), lease(A, holder="")])

    assert [(s.name, s.state, s.objects) for s in seen.statuses(b=1, gone=7)] == [
        (A, "dead", 0),
        (B, "ready", 1),
    ]


def test_a_lease_that_makes_no_shard_is_not_shown() -> None:
    seen = Seen([lease(A), lease(B, seconds=0)])

    assert [s.name for s in seen.statuses()] == [A]
    assert [of.shard for of in loads_of(seen.snapshot, stats())] == [A]


def test_a_shard_whose_lease_has_gone_since_is_not_shown() -> None:
    seen = Seen([lease(A), lease(B)])
    seen.membership.forget(lease(B), AT)

    assert [s.name for s in seen.statuses()] == [A]


def test_of_two_leases_of_a_name_the_one_that_is_held_counts() -> None:
    seen = Seen([lease(A, namespace="a-first"), lease(A, namespace="z-last", holder="")])

    assert [of.namespace for of in loads_of(seen.snapshot, stats())] == ["a-first"]
    assert [s.state for s in seen.statuses()] == ["ready"]


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("objects=60", None, "60"),
        ("objects=60", 30, "30"),
        ("objects=20", 30, "20"),
        ("cpu=4", 30, "30"),
        ("cpu=4", None, None),
    ],
)
def test_the_lower_of_declared_and_common_capacity_counts(
    text: str, limit: int | None, shown: str | None
) -> None:
    assert capacity(text, per_shard_capacity=limit).get("objects") == shown

    seen = Seen([annotated(A, capacity=text)], per_shard_capacity=limit)
    (load,) = loads_of(seen.snapshot, stats(a=5))
    assert load == ShardLoad(
        namespace="default",
        shard=A,
        objects=5,
        ceiling=None if shown is None else int(shown),
    )


@pytest.mark.parametrize(
    ("amount", "shown"),
    [("4", "4"), ("100", "100"), ("8Gi", "8589934592"), ("250m", "0.25"), ("1e3", "1000")],
)
def test_capacities_are_plain_numbers(amount: str, shown: str) -> None:
    assert capacity(f"cpu={amount}") == {"cpu": shown}


def test_only_so_many_resources_are_shown_and_objects_always() -> None:
    many = ",".join(f"a{number:02}=1" for number in range(20))

    shown = capacity(f"{many},objects=3")

    assert list(shown) == ["objects", *(f"a{number:02}" for number in range(MAX_RESOURCES - 1))]


class Stage:
    """A Load that shows what is counted of the rings."""

    def __init__(self, cluster: Cluster) -> None:
        self.counted: dict[RingName, ObjectStats] = {}
        self.shown = cluster.metrics.loads
        self.load = Load(
            cache=cluster.cache,
            stats=self.counted.get,
            metrics=cluster.metrics,
            clock=cluster.clock,
        )


async def test_loads_are_shown_as_they_are_until_no_replica_leads() -> None:
    cluster = Cluster()
    stage, seen = Stage(cluster), []

    async with cluster.watched(A, B), TaskGroup() as group:
        task = group.create_task(stage.load.run())
        for number in (3, 4):
            stage.counted[DEMO] = stats(a=number)
            await cluster.clock.advance(SHOW_SECONDS)
            seen.append(stage.shown[DEMO])
        task.cancel()

    assert [objects for objects, _ in seen] == [3, 4]
    assert [(load.shard, load.objects) for load in seen[1][1]] == [(A, 4), (B, 0)]
    assert stage.shown == {}


async def test_a_ring_that_is_not_counted_or_gone_shows_nothing() -> None:
    cluster = Cluster()
    stage = Stage(cluster)

    async with cluster.watched(A), TaskGroup() as group:
        task = group.create_task(stage.load.run())
        stage.counted[DEMO] = stats(a=1)
        await cluster.clock.advance(SHOW_SECONDS)
        counted = set(stage.shown)
        del stage.counted[DEMO]
        await cluster.clock.advance(SHOW_SECONDS)
        uncounted = set(stage.shown)
        stage.counted[DEMO] = stats(a=1)
        await cluster.clock.advance(SHOW_SECONDS)
        counted_again = set(stage.shown)
        await cluster.delete_ring()
        await cluster.clock.advance(SHOW_SECONDS)
        gone = set(stage.shown)
        task.cancel()

    assert (counted, uncounted, counted_again, gone) == ({DEMO}, set(), {DEMO}, set())


async def test_a_shard_that_is_gone_is_shown_no_more() -> None:
    cluster = Cluster()
    stage = Stage(cluster)

    async with cluster.watched(A, B, C), TaskGroup() as group:
        task = group.create_task(stage.load.run())
        stage.counted[DEMO] = stats(a=1, b=2, c=3)
        await cluster.clock.advance(SHOW_SECONDS)
        await cluster.delete_lease(B)
        await cluster.clock.advance(SHOW_SECONDS)
        shown = [load.shard for load in stage.shown[DEMO][1]]
        task.cancel()

    assert shown == [A, C]
