"""Rebalancing on a real API server: loads that have become uneven, empty shards, and budgets."""

import time
from collections.abc import Iterator, Mapping

import pytest

from sharder.core.api.meta import Json
from tests.e2e.journeys import begun, journeys, shortest
from tests.e2e.laden import HEAVY, LIGHT, Laden, laden
from tests.e2e.own_ring import OwnRing
from tests.e2e.replicas import FAST_ELECTION, Replicas, two_sharders
from tests.support.eventually import Probe, eventually, never
from tests.support.figures import show

THRESHOLD = 0.15
TOLERANCE = 1e-9
INTERVAL = 2.0
BUDGET = 5
"""Moves at one look."""
BALANCE: dict[str, Json] = {
    "strategy": "ResourceBalance",
    "threshold": str(THRESHOLD),
    "interval": f"{INTERVAL:.0f}s",
    "maxMovesPerInterval": BUDGET,
}
HAND_OVER_SECONDS = 15.0
"""By when what a Secret controls is where the Secret goes, on a slow machine."""
APART_SECONDS = INTERVAL / 10
"""Between what goes beyond a budget, as seen: what came before may be seen late on a slow machine,
and those of one look are asked for within milliseconds."""
QUIET_SECONDS = 3 * INTERVAL


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    with two_sharders(leaderElection=FAST_ELECTION) as replicas:
        yield replicas


@pytest.mark.parametrize("name", ["alone", "with-checksums"])
async def test_uneven_shards_come_below_the_threshold_and_then_nothing_moves_any_more(
    replicas: Replicas, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    controlled = name == "with-checksums"
    loads = LIGHT if controlled else HEAVY
    async with laden(replicas.playground, name, loads, controlled=controlled) as found:
        ring, history = found.ring, found.ring.history
        before, mark = await found.fragmentations(), history.mark()
        began = time.monotonic()
        await ring.change(rebalance=BALANCE)
        after = await _balanced(found)
        seconds = time.monotonic() - began
        await ring.until_worked_on()
        settled = history.mark()
        await never(_something_moves(ring, settled), during=QUIET_SECONDS)
        final = await found.fragmentations()
        strays = await ring.strays() if controlled else []

    moved, asked = journeys(history, mark), begun(history, mark)
    slowest = max(journey.acknowledged for journey in moved)
    longest = max(journey.waited for journey in moved)
    apart = shortest(asked, BUDGET)
    show(
        capsys,
        f"{name}: fragmentation {_told(before)} -> {_told(after)} in {seconds:.1f} s by "
        f"{len(moved)} moves, {BUDGET + 1} in {apart:.2f} s at least; acknowledged in "
        f"{slowest:.2f} s at most, without owner for {longest:.2f} s at most",
    )
    assert [round(each, 6) for each in before.values()] == [0.2, 0.2, 0, 0]
    assert max(final.values()) <= THRESHOLD + TOLERANCE
    assert len({journey.name for journey in moved}) == len(moved) == len(asked) > BUDGET
    assert apart > APART_SECONDS
    assert len(asked) <= BUDGET * (1 + (asked[-1].seen - began) / INTERVAL)
    assert longest <= (HAND_OVER_SECONDS if controlled else 0)
    assert strays == []


async def _balanced(found: Laden) -> dict[str, float]:
    """Wait until no shard is above the threshold and nothing is under way."""

    async def balanced() -> dict[str, float]:
        assert not found.ring.history.draining()
        fragmentations = await found.fragmentations()
        assert max(fragmentations.values()) <= THRESHOLD + TOLERANCE, fragmentations
        return fragmentations

    return await eventually(balanced, within=60)


def _something_moves(ring: OwnRing, mark: int) -> Probe[bool]:
    async def moves() -> bool:
        return bool(begun(ring.history, mark) or journeys(ring.history, mark))

    return moves


def _told(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{number:.3f}".rstrip("0").rstrip(".") for number in numbers.values())
