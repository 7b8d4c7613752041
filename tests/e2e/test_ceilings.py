"""A flood of creates on two replicas: soon after it no shard is above its ceiling."""

import pytest

from hack.ownership import create_secrets, observing
from sharder.core.api.ring import StrategyName
from tests.e2e.replicas import REPLICAS, Replicas, two_sharders
from tests.support.figures import show

FLOOD = 1500
SHARDS = {"shard-0", "shard-1", "shard-2"}


async def _answers(replicas: Replicas) -> list[float]:
    return [await replicas.metric(each, "admission_answers_total") for each in REPLICAS]


async def test_soon_after_a_flood_of_creates_on_two_replicas_no_shard_is_above_its_ceiling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with two_sharders() as replicas:
        playground, strategy = replicas.playground, StrategyName.BOUNDED_LOAD
        playground.place_by(strategy)
        for shard in SHARDS:
            playground.start_shard(shard)
        async with observing(playground.author, strategy) as (observer, client):
            await observer.settled(SHARDS, within=60)
            before = await _answers(replicas)
            await create_secrets(client, [f"secret-{number:04}" for number in range(FLOOD)])
            after = await _answers(replicas)
            at_once = (await observer.look()).shares()
            now, seconds = await observer.settled(SHARDS, within=120)

    answered = [late - early for early, late in zip(before, after, strict=True)]
    show(capsys, f"answered {answered}; {at_once} at once, {now.shares()} {seconds:.0f} s later")
    assert now.shares().total() == FLOOD
    assert min(answered) > FLOOD / 10
