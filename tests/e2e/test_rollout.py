"""A rolling replacement of all shards moves each object about once."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from hack.control_plane import ControlPlane
from hack.playground import Playground, wait_until_ready
from sharder.core.api.ring import StrategyName
from tests.e2e.history import History
from tests.e2e.journeys import journeys
from tests.e2e.steered import steered
from tests.support.figures import show

SHARDS = 5
DRAIN_ON_STOP = "60s"


@pytest.fixture(scope="module")
def playground() -> Iterator[Playground]:
    with ControlPlane() as plane:
        playground = Playground(plane)
        playground.install()
        playground.start_sharder(gracefulShutDown="0s")
        yield playground


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A ring, and how often an object may move while all its shards are replaced."""

    strategy: StrategyName
    objects: int
    most: float


@pytest.mark.parametrize(
    "rollout",
    [
        Rollout(strategy=StrategyName.BOUNDED_LOAD, objects=300, most=1.05),
        # It follows the hash of the new shards once the old ones are gone.
        Rollout(strategy=StrategyName.CONSISTENT_HASH, objects=300, most=2.0),
        *(
            pytest.param(rollout, marks=pytest.mark.long)
            for rollout in (
                Rollout(strategy=StrategyName.SPREAD, objects=300, most=1.05),
                Rollout(strategy=StrategyName.LEAST_LOADED, objects=300, most=1.05),
                Rollout(strategy=StrategyName.BOUNDED_LOAD, objects=1000, most=1.05),
                Rollout(strategy=StrategyName.CONSISTENT_HASH, objects=1000, most=2.0),
            )
        ),
    ],
    ids=lambda rollout: f"{rollout.strategy}-{rollout.objects}",
)
async def test_shards_replaced_one_at_a_time_move_each_object_about_once(
    playground: Playground, capsys: pytest.CaptureFixture[str], rollout: Rollout
) -> None:
    await wait_until_ready(playground)
    name = f"rollout-{rollout.strategy.lower()}-{rollout.objects}"
    old, new = _shards(name, "old"), _shards(name, "new")
    placement = {"strategy": rollout.strategy.value}

    async with steered(
        playground,
        name,
        *old,
        placement=placement,
        SHARD_REVISION="old",
        SHARD_DRAIN_ON_STOP=DRAIN_ON_STOP,
    ) as steering:
        ring, history = steering.ring, steering.history
        await ring.create(f"secret-{number:04}" for number in range(rollout.objects))
        await ring.until_worked_on()
        mark, began, left_behind = history.mark(), time.monotonic(), list[int]()
        for leaver, comer in zip(old, new, strict=True):
            await ring.start(comer, SHARD_REVISION="new", SHARD_DRAIN_ON_STOP=DRAIN_ON_STOP)
            await steering.leave(leaver)
            left_behind.append((await ring.read_loads())[leaver])
        seconds = time.monotonic() - began
        await ring.until(partial(_is_settled, set(new)))
        await ring.until_worked_on()
        moves = journeys(history, mark)
        shared, loads = steering.overlaps(), history.loads()

    show(
        capsys,
        f"{rollout.strategy}: {rollout.objects} objects on {SHARDS} shards replaced one by one "
        f"in {seconds:.0f} s, {len(moves) / rollout.objects:.3f} moves per object, none without "
        f"an owner for more than {max(move.waited for move in moves):.2f} s, "
        f"at last {sorted(loads.values())}",
    )
    assert {move.name for move in moves} == history.owners().keys()
    assert len(moves) / rollout.objects <= rollout.most
    assert [move for move in moves if move.asked is None] == []
    assert set(loads) == set(new)
    assert left_behind == [0] * SHARDS
    assert shared == []


def _shards(ring: str, revision: str) -> list[str]:
    return [f"{ring}-{revision}-{number}" for number in range(SHARDS)]


def _is_settled(live: set[str], history: History) -> bool:
    return set(history.loads()) <= live and not history.draining()
