"""What the console of a leader shows while its ring changes."""

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from sharder.cli.app import run_command
from sharder.console.models import Health, Ring
from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION
from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, PIN, World
from tests.stage.actors import RING


class Watching:
    """Looks at the console every tenth of a second, and compares it with the truth."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.console = world.replicas["r0"].replica.console
        self.wrong = list[tuple[Counter[str], Counter[str]]]()

    async def go(self, seconds: float) -> list[Ring]:
        """Let time pass, and return what is shown."""
        shown = list[Ring]()
        for _ in range(round(10 * seconds)):
            await asyncio.sleep(0.1)
            ring = self.console.ring(RING)
            assert ring is not None
            shown.append(ring)
            true = Counter(owner.strip("*") for owner in self.world.owners().values())
            shows = Counter({str(each.name): each.objects or 0 for each in ring.shard_list})
            shows += Counter({"": ring.unassigned or 0})
            self.wrong += [(shows, true)] if shows != true else []
        return shown


async def looking(world: World) -> Watching:
    """Let two shards share 20 websites with a child each."""
    await world.begin("p0", "p1")
    for number in range(20):
        shard = f"p{number % 2}"
        await world.put(f"s{number}", shard, to=shard)
        await world.put(f"c{number}", shard, CONFIGMAPS, of=f"s{number}")
    await asyncio.sleep(40)  # they are counted every 30 s
    return Watching(world)


def always(shown: list[Ring]) -> set[int | None]:
    """Return the numbers of objects that were shown."""
    return {ring.objects for ring in shown}


@staged
async def test_a_rollout_is_green_and_every_object_is_counted_once(world: World) -> None:
    looks = await looking(world)
    world.join("p2")
    shown = await looks.go(10)
    for old in ("p0", "p1"):
        await world.puppets[old].release()
        shown += await looks.go(10)
    assert {ring.health for ring in shown} == {Health.OK, Health.MOVING}
    assert [fault for ring in shown for fault in ring.faults] == []
    assert always(shown) == {20}
    assert len(looks.wrong) <= len(shown) / 20, "what a watch is yet to show"
    assert not any(event.warning for event in shown[-1].events)


@staged
async def test_a_killed_shard_is_late_and_no_fault_once_its_objects_are_placed(
    world: World,
) -> None:
    looks = await looking(world)
    world.puppets["p0"].kill()
    shown = await looks.go(30)
    assert list(dict.fromkeys(ring.headline for ring in shown)) == [
        "20 objects on 2 shards, each with an owner",
        "shard p0 is late",
        "objects are moving; 20 objects on 1 shard",
        "20 objects on 1 shard, each with an owner",
    ]
    assert always(shown) == {20}
    assert shown[-1].faults == ()


@pytest.mark.slow
@staged
async def test_an_evacuated_shard_is_safe_to_stop_when_it_is_empty_and_stuck_drains_are_named(
    world: World,
) -> None:
    looks = await looking(world)
    world.puppets["p0"].acknowledges = False
    await world.annotate_lease("p0", **{EVACUATE_ANNOTATION: "true"})
    shown = await looks.go(20)
    assert shown[5].faults[0].message.startswith("shard p0 is being evacuated, ")
    shown = await looks.go(50)
    assert shown[-1].headline == "10 drains not acknowledged by shard p0"
    world.puppets["p0"].acknowledges = True
    shown = await looks.go(10)
    assert shown[-1].faults[0].message == "shard p0 is empty: safe to stop"
    assert always(shown) == {20}
    assert PIN in (world.meta("s0").labels or {})


async def alone(world: World) -> None:
    for puppet in world.puppets.values():
        await puppet.release()


FAULTS: dict[str, Callable[[World], Awaitable[None]]] = {
    "FAIL no shard is available": alone,
    "WARN movement is paused": lambda on: on.edit_ring(movement={"paused": True}),
    "WARN the ring selects no namespace": lambda on: on.edit_ring(
        namespaceSelector={"matchLabels": {"tenant": "none"}}
    ),
    "OK shard p0 is cordoned and gets no new objects": lambda on: on.annotate_lease(
        "p0", **{CORDONED_ANNOTATION: "true"}
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@staged
async def test_each_fault_says_what_to_run(world: World, fault: str) -> None:
    looks = await looking(world)
    await FAULTS[fault](world)
    *_, ring = await looks.go(5)

    first = ring.faults[0]
    assert f"{first.level} {first.message}" == fault
    for line in first.run:
        program, *arguments = shlex.split(line)
        assert program == "kubectl" or run_command([*arguments, "--help"], program) == 0


@staged
async def test_the_page_gets_all_rings_and_the_chosen_one(world: World) -> None:
    looks = await looking(world)

    one, none = [json.loads(await looks.console.look(name)) for name in (RING, "none")]

    assert [each["name"] for each in one["rings"]["rings"]] == [RING]
    assert (one["ring"]["objects"], none["ring"]) == (20, None)
