"""Ceilings under fire: floods of creates on two replicas, restarts, joins, deaths and edits."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil

import pytest

from sharder.core.api.meta import Json
from tests.e2e.history import History
from tests.e2e.own_ring import OwnRing, own_ring
from tests.e2e.replicas import REPLICAS, Replicas, two_sharders
from tests.support.eventually import eventually
from tests.support.figures import show

FLOOD = 1500
HOLD_SECONDS = 20.0
"""By when all ceilings hold after the last create, on a machine that is busy."""
SOON_SECONDS = 10.0
"""Far longer than a change takes, and shorter than the wait for another pass that sees to it."""
CLIENTS = 4


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    with two_sharders() as replicas:
        yield replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """A ring, and how many of the Secrets each of three shards may have in the end."""

    name: str
    placement: dict[str, Json]
    ceiling: Callable[[int], int]
    """Told how many Secrets there are."""
    unassigned: int


@pytest.mark.parametrize(
    "flood",
    [
        Flood(
            name="too-many",
            placement={"perShardCapacity": 450},
            ceiling=lambda _: 450,
            unassigned=150,
        ),
        Flood(name="fitting", placement={}, ceiling=lambda n: ceil(n / 3), unassigned=0),
    ],
    ids=lambda flood: flood.name,
)
async def test_soon_after_a_flood_of_creates_on_two_replicas_no_shard_is_above_its_ceiling(
    replicas: Replicas, capsys: pytest.CaptureFixture[str], flood: Flood
) -> None:
    shards = [f"{flood.name}-{letter}" for letter in "abc"]
    names = [f"secret-{number:04}" for number in range(FLOOD)]
    placement = {"strategy": "BoundedLoad", **flood.placement}

    async with own_ring(
        replicas.playground, flood.name, *shards, clients=CLIENTS, placement=placement
    ) as ring:
        asked = [await _answers(replicas, name, ring.name) for name in REPLICAS]
        began = time.monotonic()
        await ring.create(names)
        last = time.monotonic()
        at_once = await ring.read_loads()
        answered = [await _answers(replicas, name, ring.name) for name in REPLICAS]
        limit = flood.ceiling(FLOOD)
        await ring.until(lambda h: _fullest(h.loads()) <= limit, within=HOLD_SECONDS)
        await ring.until(lambda h: len(h.now) == FLOOD and not h.draining())
        await ring.until(lambda h: h.loads()[""] == flood.unassigned)
        history = ring.history

    excesses = list(history.excesses(flood.ceiling))
    above = [write for write, excess in excesses if excess]
    held = above[-1].seen - last if above else 0.0
    asked_at = [write.seen for write in history.writes if write.draining]
    slow = (
        f"{asked_at[0] - above[0].seen:.1f} s after the first" if asked_at and above else "never"
    )
    by_each = [after - before for before, after in zip(asked, answered, strict=True)]
    show(
        capsys,
        f"{flood.name}: {FLOOD} creates in {last - began:.1f} s, answered {by_each}; "
        f"at worst {max(excess for _, excess in excesses)} above a ceiling, "
        f"{max(0, _fullest(at_once) - limit)} right after the last create; "
        f"{len(history.drained(0))} displaced, asked for {slow}; "
        f"all ceilings held {held:+.1f} s after the last create; in the end {history.loads()}",
    )
    assert all(many > FLOOD / 10 for many in by_each)
    assert max(history.loads()[shard] for shard in shards) <= limit
    assert history.loads()[""] == flood.unassigned


@pytest.mark.parametrize("end", [Replicas.stop, Replicas.kill], ids=["SIGTERM", "SIGKILL"])
async def test_a_restart_of_the_sharder_moves_nothing(
    replicas: Replicas, capsys: pytest.CaptureFixture[str], end: Callable[[Replicas], None]
) -> None:
    playground, suffix = replicas.playground, end.__name__
    bounded: Json = {"strategy": "BoundedLoad"}
    spread: Json = {"strategy": "Spread", "groupBy": {"labels": ["app"]}}
    async with (
        own_ring(
            playground, f"bounded-{suffix}", *_shards(f"b-{suffix}"), placement=bounded
        ) as first,
        own_ring(
            playground, f"spread-{suffix}", *_shards(f"s-{suffix}"), placement=spread
        ) as second,
    ):
        for ring in (first, second):
            await ring.create((f"secret-{n:03}" for n in range(200)), app=lambda n: f"app-{n % 7}")
        for ring in (first, second):
            await ring.until_worked_on()
        before = [await ring.versions() for ring in (first, second)]
        began = time.monotonic()
        await asyncio.to_thread(end, replicas)
        await asyncio.to_thread(replicas.start)
        for ring in (first, second):
            await _until_passed(replicas, ring, 2)
        seconds = time.monotonic() - began
        after = [await ring.versions() for ring in (first, second)]
        loads = [dict(ring.history.loads()) for ring in (first, second)]

    show(capsys, f"restarted by {suffix}, passed over twice {seconds:.1f} s later: {loads}")
    assert [len(each) for each in before] == [400, 400]
    assert after == before


async def test_what_is_too_much_when_a_shard_joins_moves_and_what_a_dead_one_had_fits(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    many, (mortal, *others) = 301, _shards("join")
    async with own_ring(
        replicas.playground, "join", *others, placement={"strategy": "BoundedLoad"}
    ) as ring:
        await ring.start(mortal, lease_seconds=5)
        await ring.until_placing()
        await ring.create(f"secret-{number:03}" for number in range(many))
        await ring.until_worked_on()
        history, before, mark = ring.history, ring.history.owners(), ring.history.mark()
        excess = history.least_drawn_above(ceil(many / 4))
        began = time.monotonic()
        await ring.start("join-d")
        await ring.until(lambda h: len(_moved(h.owners(), before)) == len(excess))
        joined = time.monotonic() - began
        await _until_passed(replicas, ring, await _passes(replicas, ring) + 1)
        joint, drained = history.owners(), history.drained(mark)

        mark, began = history.mark(), time.monotonic()
        ring.kill(mortal)
        await ring.until(lambda h: set(h.loads()) == ring.live)
        killed = time.monotonic() - began
        await _until_passed(replicas, ring, await _passes(replicas, ring) + 1)
        final, strays = history.owners(), await ring.strays()
        above = max(excess for _, excess in history.excesses(lambda n: ceil(n / 3), mark=mark))

    show(
        capsys,
        f"{len(excess)} of {many} moved to a shard that joined, {joined:.1f} s after its start; "
        f"those of a killed one were taken over {killed:.1f} s later: {history.loads()}",
    )
    assert drained == excess
    assert _moved(joint, before) == dict.fromkeys(excess, "join-d")
    assert _moved(final, joint).keys() == {n for n, owner in joint.items() if owner == mortal}
    assert len(set(_moved(final, joint).values())) == 3
    assert history.drained(mark) == set()
    assert (above, strays) == (0, [])


async def test_what_waits_gets_the_room_of_what_is_deleted(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = _shards("room")
    bounded: Json = {"strategy": "BoundedLoad", "perShardCapacity": 30}
    async with own_ring(replicas.playground, "room", *shards, placement=bounded) as ring:
        await ring.create(f"secret-{number:03}" for number in range(120))
        await ring.until(lambda h: h.loads()[""] == 30 and not h.draining())
        history, seconds = ring.history, list[float]()
        for shard, many in zip((*shards, shards[0]), (1, 12, 5, 12), strict=True):
            waited = history.loads()[""]
            owned = sorted(name for name, owner in history.owners().items() if owner == shard)
            await ring.delete(owned[:many])
            began = time.monotonic()
            await ring.until(partial(_waits, waited - many))
            seconds.append(time.monotonic() - began)
        above = max(excess for _, excess in history.excesses(lambda _: 30))

    told = ", ".join(f"{each:.2f}" for each in seconds)
    show(capsys, f"room given {told} s after a deletion; at worst {above} above a ceiling")
    assert history.loads() == dict.fromkeys(shards, 30)
    assert max(seconds) <= SOON_SECONDS


async def test_a_ceiling_that_falls_drains_the_excess_and_one_that_rises_takes_it_back(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = _shards("edit")
    bounded: Json = {"strategy": "BoundedLoad", "perShardCapacity": 81}
    playground = replicas.playground
    async with own_ring(playground, "edit", *shards, placement=bounded) as ring:
        await ring.create(f"secret-{number:03}" for number in range(240))
        await ring.until_worked_on()
        history, mark = ring.history, ring.history.mark()
        excess = history.least_drawn_above(70)
        fell = await _timed(ring.edit(perShardCapacity=70), ring, lambda h: h.loads()[""] == 30)
        await ring.until_worked_on()
        drained = history.drained(mark)

        for shard in shards:
            playground.pause(shard)
        before, mark, more = history.owners(), history.mark(), history.least_drawn_above(60)
        asked = await _timed(
            ring.edit(perShardCapacity=60), ring, lambda h: len(h.draining()) >= len(more)
        )
        await asyncio.sleep(2)
        asked_for = history.draining()
        rose = await _timed(
            ring.edit(perShardCapacity=81),
            ring,
            lambda h: not h.draining() and not h.loads()[""],
        )
        for shard in shards:
            playground.resume(shard)
        await ring.until_worked_on()
        after, strays = history.owners(), await ring.strays()

    show(
        capsys,
        f"{len(excess)} drained and 30 without owner {fell:.1f} s after a ceiling fell; "
        f"{len(more)} more asked for after {asked:.1f} s, taken back and all placed {rose:.1f} s "
        "after it rose",
    )
    assert drained == excess
    assert asked_for == more
    assert asked <= SOON_SECONDS
    assert _moved(after, before).keys() == {n for n, owner in before.items() if not owner}
    assert strays == []


async def test_checksums_are_on_the_shard_of_their_secret_where_displaced_ones_compete_for_room(
    replicas: Replicas,
) -> None:
    shards = _shards("few")
    bounded: Json = {"strategy": "BoundedLoad", "perShardCapacity": 100}
    async with own_ring(replicas.playground, "few", *shards, placement=bounded) as ring:
        await ring.create(f"secret-{number:03}" for number in range(300))
        await ring.until_worked_on()
        for shard, many in ((shards[1], 43), (shards[2], 26)):
            owners = ring.history.owners().items()
            await ring.delete([name for name, owner in owners if owner == shard][:many])
        await ring.edit(perShardCapacity=77)
        await ring.until(lambda h: h.loads() == dict(zip(shards, (77, 77, 77), strict=True)))
        strays = await ring.strays()

    assert strays == []


def _shards(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}-{letter}" for letter in "abc")


def _fullest(loads: dict[str, int]) -> int:
    return max(many for shard, many in loads.items() if shard)


def _waits(many: int, history: History) -> bool:
    return history.loads()[""] == many


def _moved(after: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """Return the new owner of what has another one than before."""
    return {name: owner for name, owner in after.items() if owner and owner != before[name]}


async def _answers(replicas: Replicas, sharder: str, ring: str) -> int:
    return int(await replicas.metric(sharder, "admission_answers_total", ring))


async def _passes(replicas: Replicas, ring: OwnRing) -> int:
    """Return how often both sharders have passed over all objects of the ring."""
    name = "resync_duration_seconds_count"
    return int(sum([await replicas.metric(each, name, ring.name) for each in REPLICAS]))


async def _until_passed(replicas: Replicas, ring: OwnRing, passes: int) -> None:
    async def passed() -> bool:
        return await _passes(replicas, ring) >= passes

    await eventually(passed, within=60)


async def _timed(change: Awaitable[None], ring: OwnRing, fact: Callable[[History], bool]) -> float:
    """Return how many seconds after the beginning of a change something is so."""
    began = time.monotonic()
    await change
    await ring.until(fact)
    return time.monotonic() - began
