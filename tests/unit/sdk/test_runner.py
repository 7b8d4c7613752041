"""Facts about `sharder.sdk.runner`: the reconcile that blocked the event loop is named."""

import logging

import pytest

from sharder.sdk import LeaseLost, Request
from sharder.sdk.runner import BLOCKED_SECONDS
from tests.unit.sdk.scene import TIMING, Scene, at_work


async def test_a_shard_that_lost_its_lease_to_a_blocking_reconcile_says_which_and_for_how_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    ref = await scene.create_secret("quick")

    async def reconcile(request: Request) -> None:
        if request.ref.name == "slow":
            scene.clock._elapsed += 13

    async with at_work(scene, reconcile) as (_, task):
        await scene.create_secret("slow")
        await scene.label(ref, {"changed": "yes"})
        await scene.clock.advance(1)

        lost = task.exception()
        assert isinstance(lost, LeaseLost)
        assert str(lost) == (
            "the lease was not renewed in time "
            "(reconcile of default/slow blocked the event loop for 13.0s)"
        )
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told == [
        "reconcile of default/slow blocked the event loop for 13.0s: "
        "the Lease was not renewed meanwhile"
    ]


async def test_a_lease_that_is_lost_long_after_a_block_is_not_put_down_to_it() -> None:
    scene = Scene()

    async def reconcile(request: Request) -> None:
        scene.clock._elapsed += BLOCKED_SECONDS

    async with at_work(scene, reconcile) as (_, task):
        await scene.create_secret("one")
        await scene.clock.advance(10)
        await scene.steal_lease()
        await scene.clock.advance(TIMING.retry_period)

        lost = task.exception()
        assert isinstance(lost, LeaseLost)
        assert "blocked" not in str(lost)
