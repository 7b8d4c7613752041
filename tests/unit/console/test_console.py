"""Facts about what the console shows of a ring, and what it says to do."""

import shlex
from datetime import timedelta

import pytest

from sharder.cli.app import run_command
from sharder.console.console import RINGS_SECONDS
from sharder.console.models import Health
from sharder.console.shards import MAX_SHARDS
from sharder.controllers.movement.waiting.backlog import MAX_REMEMBERED, Backlog, Limit
from sharder.core.api.ring import ControllerRing, PlacementSpec, RingSpec, StrategyName
from sharder.core.names import NO_RING, STATE_LABEL, ObjectRef, RingName, ShardName
from sharder.core.status.conditions import EXHAUSTED, READY, WATCHED
from sharder.core.status.phases import ShardPhase
from sharder.core.status.transition_messages import Kind, Transition, of_shards, sentence
from tests.support.cluster import Cluster
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, ring
from tests.unit.console.scene import Scene, phases

THING = ObjectRef("default", "thing")


async def test_a_quiet_ring_is_one_sentence_and_its_shards() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=2, b=1)
        now = await scene.look()

    assert (now.health, now.headline) == (Health.OK, "3 objects on 2 shards, each with an owner")
    assert [(s.name, s.phase, s.objects) for s in now.shard_list] == [
        ("shard-a", ShardPhase.READY, 2),
        ("shard-b", ShardPhase.READY, 1),
    ]
    assert (now.objects, now.unowned, now.faults) == (3, 0, ())


async def test_a_killed_shard_turns_red_and_empties_as_its_objects_move() -> None:
    scene = Scene()

    async with scene.watched():
        scene.lead(a=2, b=1)
        await _late(scene)
        await scene.look()
        await scene.take(A)
        killed = await scene.look()
        scene.move(A, B)
        moving = await scene.look()
        scene.move(A, B)
        empty = await scene.look()

    assert (killed.health, killed.headline) == (
        Health.BROKEN,
        "Shard shard-a is gone: 2 of 2 objects wait for another shard",
    )
    assert phases(killed) == {"shard-a": ShardPhase.LOST, "shard-b": ShardPhase.READY}
    looks = (killed, moving, empty)
    assert [[shard.objects for shard in look.shard_list] for look in looks] == [
        [2, 1],
        [1, 2],
        [0, 3],
    ]
    assert [look.unowned for look in looks] == [2, 1, 0]
    (gone,) = empty.departures
    assert (gone.shard, gone.objects, gone.remaining) == ("shard-a", 2, 0)
    assert [(flow.target, flow.objects) for flow in gone.moved] == [("shard-b", 2)]
    assert (empty.health, empty.faults[0].what) == (
        Health.ATTENTION,
        "Shard shard-a is gone: 2 objects moved to other shards",
    )
    assert empty.faults[0].run == ("kubectl describe pod -n default shard-a",)


async def test_a_replica_that_does_not_lead_reports_what_it_sees() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=2, b=1)
        await _late(scene)
        await scene.look()
        await scene.take(A)
        now = await scene.look()

    assert [(event.kind, event.text) for event in now.events] == [
        (
            "ShardLost",
            "shard shard-a was lost (2 objects): Lease expired or deleted; 1 shard is available",
        ),
        ("ShardLate", "shard shard-a is late: the Lease was not renewed in time"),
    ]
    assert [event.warning for event in now.events] == [True, False]


async def test_the_leader_shows_what_it_reports_and_nothing_twice() -> None:
    scene = Scene()

    async with scene.watched():
        scene.lead(a=2, b=1)
        await scene.look()
        await scene.cluster.leave(A)
        left = of_shards(Kind.LEFT, {A: 2}, counted=True, available=1)
        scene.console.memory.happened(DEMO, left)
        now = await scene.look()

    assert [event.text for event in now.events] == [sentence(left)]


async def test_a_shard_whose_objects_moved_before_the_look_had_them_all_the_same() -> None:
    scene = Scene()

    async with scene.watched():
        scene.lead(a=2, b=1)
        await scene.look()
        await scene.cluster.leave(A)
        scene.move(A, B)
        scene.move(A, B)
        now = await scene.look()

    (gone,) = now.departures
    assert (gone.objects, gone.remaining) == (2, 0)
    assert [(flow.target, flow.objects) for flow in gone.moved] == [("shard-b", 2)]


async def test_a_shard_that_returns_is_no_fault() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=2, b=1)
        await _late(scene)
        await scene.look()
        await scene.take(A)
        await scene.look()
        await _late(scene, "ready")
        await scene.cluster.write_lease(A, holderIdentity=A)
        now = await scene.look()

    assert (now.health, now.faults) == (Health.OK, ())
    assert [(gone.shard, gone.returned) for gone in now.departures] == [("shard-a", True)]


async def test_a_shard_that_left_is_no_fault() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=0, b=1)
        await scene.look()
        await scene.cluster.leave(A)
        await _cordon_b(scene)
        now = await scene.look()

    assert (now.health, phases(now)["shard-a"]) == (Health.OK, ShardPhase.LEFT)
    assert [(gone.shard, gone.phase) for gone in now.departures] == [("shard-a", ShardPhase.LEFT)]


async def _late(scene: Scene, state: str = "expired") -> None:
    await scene.label(A, **{STATE_LABEL: state})


async def _cordon_b(scene: Scene) -> None:
    """Let something change for which a new snapshot is built."""
    await scene.annotate(B, cordoned="true")


async def _missing(scene: Scene) -> None:
    await scene.cluster.delete_lease(A)


async def _invalid(scene: Scene) -> None:
    await scene.cluster.write_lease(A, renewTime="never")


async def _alone(scene: Scene) -> None:
    await scene.cluster.leave(A)
    await scene.cluster.leave(B)


async def _paused(scene: Scene) -> None:
    spec = {"movement": {"paused": True}}
    metadata = {"generation": 2}
    await scene.cluster.rings.patch(ObjectRef("", DEMO), {"spec": spec, "metadata": metadata})


async def _evacuated(scene: Scene) -> None:
    await scene.annotate(A, evacuate="true")


async def _cordoned(scene: Scene) -> None:
    await scene.annotate(A, cordoned="true")


async def _not_ready(scene: Scene) -> None:
    await scene.condition(READY, "False", "grant list")


async def _full(scene: Scene) -> None:
    await scene.condition(EXHAUSTED, "True", "3 objects cannot be assigned")


async def _unwatched(scene: Scene) -> None:
    await scene.condition(WATCHED, "False", "grant watch")


async def _unreadable(scene: Scene) -> None:
    await scene.cluster.break_ring()


async def _empty(scene: Scene) -> None:
    await scene.count()


FAULTS = {
    "late": (_late, "warning Shard shard-a is late to renew the Lease"),
    "missing": (_missing, "warning Shard shard-a is without a Lease"),
    "invalid": (_invalid, "warning 1 invalid Lease of the ring"),
    "alone": (_alone, "critical No shard is running"),
    "paused": (_paused, "warning Movement is paused"),
    "evacuated": (_evacuated, "info Shard shard-a is being evacuated, 2 objects left"),
    "cordoned": (_cordoned, "info Shard shard-a is cordoned and gets no new objects"),
    "not ready": (_not_ready, "critical The ring is not ready"),
    "full": (_full, "critical No shard has room for more objects"),
    "unwatched": (_unwatched, "warning A right to watch is missing"),
    "unreadable": (_unreadable, "critical This release cannot read the ring"),
    "empty": (_empty, "info No objects counted yet"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_says_what_to_run(fault: str) -> None:
    scene = Scene()
    make, told = FAULTS[fault]

    async with scene.watched():
        await scene.count(a=2, b=1)
        await make(scene)
        now = await scene.look()

    assert f"{now.faults[0].severity} {now.faults[0].what}" == told
    assert now.faults[0].run
    assert [line for each in now.faults for line in each.run if not is_known(line)] == []


def is_known(line: str) -> bool:
    """Return whether the line is one of kubectl, or a command of ours with options that it has."""
    program, *arguments = shlex.split(line)
    return program == "kubectl" or run_command([*arguments, "--help"], program) == 0


async def test_objects_that_wait_for_long_are_a_fault() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.write_status(objects=3, unassigned=2, shardStatuses=[])
        since = scene.cluster.clock.now() - timedelta(seconds=10)
        await scene.write_status(oldestUnassignedSince=since.isoformat().replace("+00:00", "Z"))
        soon = await scene.look()
        await scene.cluster.clock.advance(5)
        late = await scene.look()

    assert [fault.what for fault in soon.faults] == []
    assert [fault.what for fault in late.faults] == ["2 objects without an owner"]


class Backlogs:
    """The backlogs of one resource, as the leader has them."""

    def __init__(self, cluster: Cluster) -> None:
        self.unassigned = Backlog(cluster.clock, Limit(MAX_REMEMBERED))
        self.draining = Backlog(cluster.clock, Limit(MAX_REMEMBERED))

    def drain(self, name: str, shard: ShardName) -> None:
        self.draining.note(ObjectRef("default", name), shard)


async def test_a_drain_that_is_not_acknowledged_names_its_shard_and_its_objects() -> None:
    scene = Scene()
    backlogs = Backlogs(scene.cluster)

    async with scene.watched():
        await scene.count(a=2, b=1)
        backlogs.drain("one", A)
        backlogs.drain("two", A)
        scene.console.memory.show_backlogs(
            DEMO, SECRETS, unassigned=backlogs.unassigned, draining=backlogs.draining
        )
        soon = await scene.look()
        await scene.cluster.clock.advance(60)
        for shard in (A, B):
            await scene.cluster.renew(shard)
        late = await scene.look()

    assert (soon.health, soon.draining) == (Health.MOVING, 2)
    assert [(shard.name, shard.draining) for shard in soon.shard_list] == [
        ("shard-a", 2),
        ("shard-b", 0),
    ]
    (fault,) = late.faults
    assert fault.what == "2 drains not acknowledged by shard shard-a"
    assert fault.run == (
        "kubectl get secrets,widgets.example.com -A -l drain.alpha.sharding.timebertt.dev/demo",
        "kubectl logs -n default shard-a --tail 50",
    )


async def test_a_ring_without_a_count_says_so() -> None:
    scene = Scene()

    async with scene.watched():
        now = await scene.look()

    assert (now.objects, now.unowned, now.headline) == (
        None,
        None,
        "Objects on 2 shards are not counted yet",
    )


async def test_what_one_shard_more_or_less_would_move_is_estimated_with_the_command() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=20, b=10)
        now = await scene.look()

    assert [(each.what, each.moves, each.waiting, each.run) for each in now.what_if] == [
        ("With one shard more about 10 objects would move", 10, 0, "sharder plan demo --add 1"),
        (
            "Without shard-a, the fullest, about 20 objects would move",
            20,
            0,
            "sharder plan demo --remove shard-a",
        ),
    ]


async def test_objects_that_would_find_no_room_are_estimated() -> None:
    scene = Scene()

    async with scene.watched(A):
        await scene.count(a=20)
        now = await scene.look()

    assert now.what_if[1].what == (
        "Without shard-a, the fullest, no object would move; 20 objects would find no room"
    )


async def test_a_strategy_that_sticks_is_shown_as_it_counts() -> None:
    of = ring()
    placement = PlacementSpec(strategy=StrategyName.BOUNDED_LOAD, per_shard_capacity=7)
    spec = RingSpec(resources=of.spec.resources, placement=placement)
    scene = Scene(Cluster(ControllerRing(metadata=of.metadata, spec=spec)))

    async with scene.watched():
        tally = scene.cluster.snapshot.tally
        assert tally is not None
        await scene.count(a=1, b=0)
        unsure = await scene.look()
        tally.synced = True
        obj = await scene.cluster.add(WIDGETS, "w", owner=A)
        snapshot = scene.cluster.snapshot
        tally.see("part", snapshot.identity_of(obj), snapshot.entry_of(obj))
        now = await scene.look()

    assert [(s.name, s.objects, s.capacity) for s in now.shard_list] == [
        ("shard-a", 1, 7),
        ("shard-b", 0, 7),
    ]
    assert [each.moves for each in now.what_if] == [0, 1]
    assert unsure.what_if == ()


async def test_a_large_ring_is_shown_by_its_troubled_and_its_fullest_shards() -> None:
    scene = Scene()
    shards = [ShardName(f"shard-{number:03}") for number in range(MAX_SHARDS + 1)]

    async with scene.watched(*shards):
        await scene.take(shards[-1])
        now = await scene.look()

    assert (len(now.shard_list), now.shard_list_truncated) == (MAX_SHARDS, True)
    assert now.shard_list[0].name == shards[-1]


async def test_rings_are_listed_the_worst_first() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.cluster.put_ring(ring("another"))
        await scene.count(a=2, b=1)
        await scene.cluster.settle()
        listed = await scene.console.rings()

    assert [(each.name, each.health) for each in listed.rings] == [
        ("another", Health.ATTENTION),
        ("demo", Health.OK),
    ]


async def test_the_replica_says_whether_it_leads() -> None:
    scene = Scene()

    async with scene.watched():
        before = await scene.console.rings()
        scene.lead()
        scene.console.memory.happened(NO_RING, Transition(kind=Kind.LEADER, detail="me"))
        await scene.cluster.clock.advance(RINGS_SECONDS)
        listed = await scene.console.rings()

    assert (before.replica.leading, listed.replica.leading) == (False, True)
    assert [event.text for event in listed.events] == ["me became leader"]


async def test_there_is_nothing_to_show_of_a_ring_that_is_not_there() -> None:
    scene = Scene()

    async with scene.watched():
        assert scene.console.ring(RingName("other")) is None
