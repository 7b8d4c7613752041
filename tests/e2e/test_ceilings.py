"""Ceilings under fire: floods of creates on two replicas, restarts, joins, deaths and edits."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import pytest

from sharder.core.api.meta import Json
from tests.e2e.own_ring import OwnRing, own_ring
from tests.e2e.replicas import REPLICAS, Replicas, two_sharders
from tests.support.eventually import eventually
from tests.support.figures import show

FLOOD = 1500
HOLD_SECONDS = 20.0
"""By when all ceilings hold after the last create, on a machine that is busy."""
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


def _shards(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}-{letter}" for letter in "abc")


def _fullest(loads: dict[str, int]) -> int:
    return max(many for shard, many in loads.items() if shard)


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
