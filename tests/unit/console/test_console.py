"""Facts about what the console shows of a ring, and what it says to do."""

import shlex
from collections.abc import Awaitable, Callable

import pytest

from sharder.cli.app import run_command
from sharder.console.models import Health
from sharder.console.shards import MAX_SHARDS
from sharder.controllers.movement.backlog import MAX_REMEMBERED, Backlog, Limit
from sharder.core.api.meta import Json
from sharder.core.diagnosis.ring import WAITING
from sharder.core.names import STATE_LABEL, ObjectRef, ShardName
from sharder.core.status.conditions import COVERED, EXHAUSTED, READY, UNOWNED, WATCHED
from sharder.core.status.phases import ShardPhase
from tests.support.cluster import Cluster
from tests.support.values import DEMO, SECRETS, A, B, ring
from tests.unit.console.scene import Scene, phases


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


async def test_a_lost_shard_is_a_fault_until_its_objects_are_placed() -> None:
    scene = Scene()

    async with scene.watched():
        scene.lead(a=2, b=1)
        await scene.take(A)
        lost = await scene.look()
        scene.move(A, B)
        moving = await scene.look()
        scene.move(A, B)
        placed = await scene.look()

    assert [(look.health, look.headline) for look in (lost, moving, placed)] == [
        (Health.BROKEN, "shard shard-a is lost: 2 objects wait for another shard"),
        (Health.BROKEN, "shard shard-a is lost: 1 object waits for another shard"),
        (Health.MOVING, "objects are moving; 3 objects on 1 shard"),
    ]
    assert phases(lost) == {"shard-a": ShardPhase.LOST, "shard-b": ShardPhase.READY}
    assert [look.unowned for look in (lost, moving, placed)] == [2, 1, 0]
    assert placed.faults == ()


@pytest.mark.parametrize(("objects", "text"), [
    (2, "shard shard-a is being evacuated, 2 objects left"),
    (0, "shard shard-a is empty: safe to stop"),
])  # fmt: skip
async def test_an_evacuated_shard_is_empty_in_the_end(objects: int, text: str) -> None:
    scene = Scene()

    async with scene.watched():
        scene.lead(a=objects, b=1)
        await scene.annotate(A, evacuate="true")
        now = await scene.look()

    assert [fault.message for fault in now.faults] == [text]


async def _alone(scene: Scene) -> None:
    await scene.cluster.leave(A)
    await scene.cluster.leave(B)


async def _edited(scene: Scene, **spec: Json) -> None:
    body: Json = {"spec": spec, "metadata": {"generation": 2}}
    await scene.cluster.rings.patch(ObjectRef("", DEMO), body)


NOWHERE: Json = {"matchLabels": {"tenant": "none"}}
FAULTS: dict[str, Callable[[Scene], Awaitable[object]]] = {
    "WARN shard shard-a is late": lambda on: on.label(A, **{STATE_LABEL: "expired"}),
    "WARN shard shard-a is missing": lambda on: on.cluster.delete_lease(A),
    "WARN 1 invalid Lease": lambda on: on.cluster.write_lease(A, renewTime="never"),
    "FAIL no shard is available": _alone,
    "WARN movement is paused": lambda on: _edited(on, movement={"paused": True}),
    "WARN the ring selects no namespace": lambda on: _edited(on, namespaceSelector=NOWHERE),
    "OK shard shard-a is being evacuated, 2 objects left": lambda on: on.annotate(
        A, evacuate="true"
    ),
    "OK shard shard-a is cordoned and gets no new objects": lambda on: on.annotate(
        A, cordoned="true"
    ),
    "FAIL the ring is not ready": lambda on: on.condition(READY, "False", "grant list"),
    "WARN no shard has room for more objects": lambda on: on.condition(
        EXHAUSTED, "True", "3 objects cannot be assigned"
    ),
    "WARN a right to watch is missing": lambda on: on.condition(WATCHED, "False", "grant watch"),
    "FAIL this release cannot decode the ring": lambda on: on.cluster.break_ring(),
    "OK no objects counted yet": lambda on: on.count(),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_says_what_to_run(fault: str) -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=2, b=1)
        await FAULTS[fault](scene)
        now = await scene.look()

    assert f"{now.faults[0].level} {now.faults[0].message}" == fault
    assert now.faults[0].run
    assert [line for each in now.faults for line in each.run if not is_known(line)] == []


def is_known(line: str) -> bool:
    """Return whether the line is one of kubectl, or a command of ours with options that it has."""
    program, *arguments = shlex.split(line)
    return program == "kubectl" or run_command([*arguments, "--help"], program) == 0


async def test_objects_that_wait_while_nothing_moves_are_a_fault() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=2, b=1)
        scene.console.memory.moved(DEMO, A, B)
        await scene.condition(COVERED, "False", "2 objects without an available owner", UNOWNED)
        soon = await scene.look()
        await scene.cluster.clock.advance(WAITING.total_seconds())
        late = await scene.look()

    assert soon.faults == ()
    assert [(fault.message, fault.why) for fault in late.faults] == [
        ("objects wait for an owner", "2 objects without an available owner")
    ]


async def test_objects_of_a_lost_shard_are_one_fault() -> None:
    scene = Scene()

    async with scene.watched():
        scene.lead(a=2, b=1)
        await scene.condition(COVERED, "False", "2 objects without an available owner", UNOWNED)
        await scene.take(A)
        lost = await scene.look()

    assert [fault.check for fault in lost.faults] == ["shards"]


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
        await scene.take(A)
        lost = await scene.look()

    assert (soon.health, soon.draining) == (Health.MOVING, 2)
    assert [(shard.name, shard.draining) for shard in soon.shard_list] == [
        ("shard-a", 2),
        ("shard-b", 0),
    ]
    assert {shard.name: shard.draining for shard in lost.shard_list}[A] is None
    (fault,) = late.faults
    assert fault.message == "2 drains not acknowledged by shard shard-a"
    assert fault.run == (
        "sharder objects demo --draining",
        "kubectl logs -n default shard-a --tail 50",
    )


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
        ("another", Health.BROKEN),
        ("demo", Health.OK),
    ]
