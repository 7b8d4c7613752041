"""Facts about released objects that cannot be read, listed or written."""

import pytest
from msgspec import structs

from sharder.core.api.ring import (
    PlacementSpec,
    StrategyName,
)
from sharder.core.errors import Forbidden, InvalidObject, NotFound, Rejected, Unavailable
from tests.support.cluster import Cluster
from tests.support.counting import tally_of
from tests.support.hooked_objects import Call, on, raising
from tests.support.movement import SOON, moving
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, named, ring


@pytest.mark.parametrize("verb", ["get", "patch"])
@pytest.mark.parametrize("error", [Rejected("denied"), InvalidObject("not an object")])
async def test_a_poisoned_object_keeps_no_other_and_is_tried_again(
    verb: str, error: Exception
) -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widgets = [
            await cluster.add(WIDGETS, f"w{number}", owner=A, draining=True) for number in range(3)
        ]
        await cluster.settle()
        cluster.objects.before.append(on(verb, WIDGETS, raising(error), name="w1"))
        for widget in widgets:
            await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(SOON)
        at_first = await cluster.owners(WIDGETS)
        cluster.objects.before.clear()
        await cluster.clock.advance(3)

    assert at_first == {"w0": A, "w1": "", "w2": A}
    assert await cluster.owners(WIDGETS) == {"w0": A, "w1": A, "w2": A}


async def test_a_poisoned_child_keeps_its_owner_back_and_no_other() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        owners = [
            await cluster.add(SECRETS, name, owner=A, draining=True) for name in ("s0", "s1", "s2")
        ]
        target = {
            o.metadata.name: str(cluster.snapshot.wanted(f"/Secret/default/{o.metadata.name}"))
            for o in owners
        }
        for owner in owners:
            await cluster.add(
                CONFIGMAPS, f"of-{owner.metadata.name}", owner=A, controlled_by=owner
            )
        await cluster.settle()
        cluster.objects.before.append(on("patch", CONFIGMAPS, raising(Rejected("denied"))))
        for owner in owners:
            await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)
        at_first = await cluster.owners(SECRETS)
        cluster.objects.before.clear()
        await cluster.clock.advance(3)

    assert set(target.values()) == {A, B}
    assert at_first == {name: "" if shard == B else A for name, shard in target.items()}
    assert await cluster.owners(SECRETS) == target


async def test_what_comes_later_does_not_wait_for_the_poisoned() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        first = await cluster.add(WIDGETS, "w1", owner=A, draining=True)
        second = await cluster.add(WIDGETS, "w2", owner=A, draining=True)
        await cluster.settle()
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no")), name="w1"))
        await cluster.acknowledge(first, WIDGETS)
        await cluster.clock.advance(1000)
        await cluster.acknowledge(second, WIDGETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(WIDGETS) == {"w1": "", "w2": A}


@pytest.mark.parametrize("verb", ["find", "stream"])
async def test_controlled_objects_that_do_not_exist_keep_no_owner_back(verb: str) -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        owner = await cluster.add(SECRETS, "s", owner=A, draining=True)
        await cluster.settle()
        cluster.objects.before.append(on(verb, CONFIGMAPS, raising(NotFound("not served"))))
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(SECRETS) == {"s": A}


async def test_controlled_objects_that_cannot_be_read_keep_their_owners() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        owner = await cluster.add(SECRETS, "s", owner=A, draining=True)
        await cluster.settle()
        cluster.objects.before.append(on("stream", CONFIGMAPS, raising(Forbidden("no"))))
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)
        at_first = await cluster.owners(SECRETS)
        cluster.objects.before.clear()
        await cluster.clock.advance(3)

    assert at_first == {"s": ""}
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_a_resource_that_is_served_later_is_watched_then() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("find", WIDGETS, raising(NotFound("not served"))))

    async with moving(cluster, A):
        await cluster.clock.advance(60)
        cluster.objects.before.clear()
        await cluster.clock.advance(300)
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_a_resource_that_is_served_in_another_version_is_looked_up_again() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        cluster.objects.calls.clear()
        cluster.store(WIDGETS).fail(NotFound("the server does not serve this"))
        cluster.store(WIDGETS).hang_up()
        await cluster.clock.advance(5)

    assert Call("find", WIDGETS) in cluster.objects.calls


# What keeps all objects from being looked at


async def asked_in_ten_seconds(cluster: Cluster, verb: str) -> int:
    """The calls of one kind while ten seconds pass and all shards renew."""
    before = [call.verb for call in cluster.objects.calls].count(verb)
    for _ in range(10):
        await cluster.clock.advance(1)
        await cluster.renew(A)
        await cluster.renew(B)
    return [call.verb for call in cluster.objects.calls].count(verb) - before


async def test_children_that_cannot_be_listed_are_asked_for_less_and_less_often() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("stream", CONFIGMAPS, raising(Unavailable("down"))))

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.settle()
        await cluster.acknowledge(owner, SECRETS)
        asked = await asked_in_ten_seconds(cluster, "stream")

    assert 1 <= asked <= 8


async def test_objects_that_cannot_be_listed_are_asked_for_less_and_less_often() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        await cluster.clock.advance(1)
        cluster.objects.before.append(on("list", WIDGETS, raising(Unavailable("down"))))
        for number in range(12):
            await cluster.add(WIDGETS, f"w{number}")
        asked = await asked_in_ten_seconds(cluster, "list")

    assert 1 <= asked <= 6


async def test_while_the_leases_cannot_be_watched_objects_are_read_once_a_second() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        cluster.leases.fail(*[Unavailable("down")] * 100)
        cluster.leases.hang_up()
        await cluster.clock.advance(1)
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(10)

    assert 1 <= [call.verb for call in cluster.objects.calls].count("get") <= 11


async def test_a_strategy_at_fault_is_reported_once_whatever_it_says_of_each_object() -> None:
    placement = PlacementSpec(strategy=StrategyName.CUSTOM, custom="absent")
    spec = structs.replace(ring().spec, placement=placement)
    cluster = Cluster(structs.replace(ring(), spec=spec))

    async with moving(cluster, A) as around:
        tally_of(cluster).synced = True
        for name in ("w1", "w2"):
            await cluster.add(WIDGETS, name)
            await cluster.clock.advance(SOON)
        once_told = list(around.faults)
        await cluster.join(B)
        await cluster.settle()
        await cluster.add(WIDGETS, "w3")
        await cluster.clock.advance(SOON)

    assert [ring for ring, _ in once_told] == [DEMO]
    assert str(once_told[0][1]).startswith("the strategy 'absent' is not installed")
    assert len(around.faults) == 2  # faults that a change of the shards could repair
