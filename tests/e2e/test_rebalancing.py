"""Rebalancing on a real API server: loads that have become uneven, empty shards, and budgets."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import msgspec
import pytest

from hack.playground import Playground
from sharder.core.api.meta import Json
from sharder.core.api.ring import LastRebalance
from sharder.core.preview.balance import BalanceReport
from sharder.core.preview.report import PlanReport
from tests.e2e.journeys import begun, journeys, shortest
from tests.e2e.laden import HEAVY, LIGHT, Laden, laden
from tests.e2e.own_ring import OwnRing, own_ring
from tests.e2e.replicas import FAST_ELECTION, REPLICAS, Replicas, two_sharders
from tests.support.eventually import Probe, eventually, never
from tests.support.figures import show

SHARDER = Path(sys.executable).with_name("sharder")
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
EVEN: dict[str, Json] = {"strategy": "EvenLoad", "interval": "2s"}
HAND_OVER_SECONDS = 15.0
"""By when what a Secret controls is where the Secret goes, on a slow machine."""
APART_SECONDS = INTERVAL / 10
"""Between what goes beyond a budget, as seen: what came before may be seen late on a slow machine,
and those of one look are asked for within milliseconds."""
QUIET_SECONDS = 3 * INTERVAL
REPORT_SECONDS = 90.0
"""By when the status says what came of a look, on a slow machine."""


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


async def test_an_automatic_threshold_finds_no_source_among_two_uneven_shards_of_four(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    async with laden(replicas.playground, "auto", HEAVY) as found:
        ring, mark = found.ring, found.ring.history.mark()
        await ring.change(rebalance={**BALANCE, "threshold": "Auto"})
        last = await _looked_at(ring)
        await never(_something_moves(ring, mark), during=3 * INTERVAL)
        plan = await asyncio.to_thread(_plan, replicas.playground, ring.name)

    show(capsys, f"Auto: {plan.why}")
    assert (last.moves, last.dry_run) == (0, False)
    assert last.why.startswith("no shard is above the threshold 0.2 (Auto: mean 0.1 + sigma 0.1)")
    assert (plan.why, plan.moves) == (last.why, ())


async def test_an_empty_shard_is_filled_from_three_full_ones_but_not_in_a_dry_run(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    bounded: Json = {"strategy": "BoundedLoad"}
    async with own_ring(
        replicas.playground, "even", "even-a", "even-b", "even-c", placement=bounded
    ) as ring:
        await ring.create(f"secret-{number}" for number in range(9))
        await ring.until(lambda h: sorted(h.loads().values()) == [3, 3, 3])
        await ring.until_worked_on()
        await ring.start("even-d")
        mark, history, owners = ring.history.mark(), ring.history, ring.history.owners()
        await ring.change(rebalance={**EVEN, "dryRun": True})
        last = await _looked_at(ring)
        await never(_something_moves(ring, mark), during=2 * INTERVAL)
        plan = await asyncio.to_thread(_plan, replicas.playground, ring.name)

        began = time.monotonic()
        await ring.change(rebalance={"dryRun": False})
        await ring.until(lambda h: h.loads()["even-d"] == 2 and not h.draining())
        seconds = time.monotonic() - began
        await ring.until_worked_on()
        settled = history.mark()
        await never(_something_moves(ring, settled), during=QUIET_SECONDS)
        loads, strays = history.loads(), await ring.strays()

    show(capsys, f"3 + 3 + 3 + 0 became {_told(loads)} in {seconds:.1f} s")
    planned = [(move.object.rpartition("/")[2], move.source) for move in last.planned]
    assert last.dry_run
    assert last.moves == len(planned) == 2
    assert {move.target for move in last.planned} == {"even-d"}
    assert all(owners[name] == source for name, source in planned)
    assert [(m.object, m.source, m.target) for m in plan.moves] == [
        (m.object, m.source, m.target) for m in last.planned
    ]
    assert loads["even-d"] == 2
    assert sorted(loads.values()) == [2, 2, 2, 3]
    assert [journey.target for journey in journeys(history, mark)] == ["even-d"] * 2
    assert strays == []


async def test_when_the_leader_is_killed_in_the_middle_the_other_one_goes_on(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    playground = replicas.playground
    async with laden(playground, "killed", LIGHT) as found:
        ring, history = found.ring, found.ring.history
        mark, names = history.mark(), set(history.now)
        first = await replicas.leader(found.client)
        await ring.change(rebalance=BALANCE)
        await ring.until(lambda h: len(begun(h, mark)) > BUDGET)
        await asyncio.to_thread(playground.kill, first)
        replicas.serve_from(*(name for name in REPLICAS if name != first))
        before, killed = begun(history, mark), time.monotonic()
        await replicas.until_another_leads(found.client, first)
        after = await _balanced(found)
        seconds = time.monotonic() - killed
        await ring.until_worked_on()
        settled = history.mark()
        await never(_something_moves(ring, settled), during=3 * INTERVAL)
        owners, strays = history.owners(), await ring.strays()
    await asyncio.to_thread(_restart, replicas)

    moved, asked = journeys(history, mark), begun(history, mark)
    by_second = [write for write in asked if write.seen > killed]
    show(
        capsys,
        f"killed after {len(before)} of {len(asked)} drains; {_told(after)} {seconds:.1f} s later",
    )
    assert set(owners) == names
    assert set(owners.values()) == set(found.shards)
    assert by_second
    assert shortest(before, BUDGET) > APART_SECONDS
    assert shortest(by_second, BUDGET) > APART_SECONDS
    assert len({journey.name for journey in moved}) == len(moved)
    assert strays == []


async def _balanced(found: Laden) -> dict[str, float]:
    """Wait until no shard is above the threshold and nothing is under way."""

    async def balanced() -> dict[str, float]:
        assert not found.ring.history.draining()
        fragmentations = await found.fragmentations()
        assert max(fragmentations.values()) <= THRESHOLD + TOLERANCE, fragmentations
        return fragmentations

    return await eventually(balanced, within=60)


async def _looked_at(ring: OwnRing) -> LastRebalance:
    """Wait until the status says what came of a look.

    It is written every 30 s, and at once for a ring with another spec.
    """
    limits = count(1000)

    async def looked_at() -> LastRebalance:
        last = (await ring.status()).last_rebalance
        if last is None:
            await ring.change(movement={"maxConcurrentDrains": next(limits)})
            await asyncio.sleep(INTERVAL)
        assert last is not None
        return last

    return await eventually(looked_at, within=REPORT_SECONDS)


def _something_moves(ring: OwnRing, mark: int) -> Probe[bool]:
    async def moves() -> bool:
        return bool(begun(ring.history, mark) or journeys(ring.history, mark))

    return moves


def _plan(playground: Playground, ring: str) -> BalanceReport:
    """Return what `sharder plan` says of the ring's balance."""
    kubeconfig = str(playground.plane.admin_kubeconfig)
    command = [str(SHARDER), "plan", ring, "-o", "json", "--kubeconfig", kubeconfig]
    done = subprocess.run(command, capture_output=True, check=True)
    report = msgspec.json.decode(done.stdout, type=PlanReport).rebalance
    assert report is not None
    return report


def _restart(replicas: Replicas) -> None:
    replicas.stop()
    replicas.start(leaderElection=FAST_ELECTION)


def _told(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{number:.3f}".rstrip("0").rstrip(".") for number in numbers.values())
