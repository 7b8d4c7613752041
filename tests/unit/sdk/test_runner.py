"""Facts about `sharder.sdk.runner`: the reconcile that blocked the event loop is named."""

import asyncio
import logging

import pytest

from sharder.sdk import LeaseLost, Request
from sharder.sdk.observability.blocked_loop import Activity
from sharder.sdk.runner import BLOCKED_SECONDS, stepwise
from sharder.sdk.testing.fake_clock import FakeClock, settle
from tests.unit.sdk.scene import TIMING, Scene, at_work

STEP: tuple[str, dict[str, str]] = ("reconcile of a", {})


async def run(clock: FakeClock, *, raises: Exception | None = None) -> tuple[str, list[float]]:
    """Await something that blocks at its first and its last step."""
    blocks = list[float]()

    async def work() -> str:
        clock._elapsed += 3
        await asyncio.sleep(0)
        clock._elapsed += 1
        await asyncio.sleep(0)
        clock._elapsed += 13
        if raises:
            raise raises
        return "done"

    try:
        return await stepwise(
            work(), Activity(), STEP, clock=clock, on_block=blocks.append
        ), blocks
    except ValueError as error:
        return str(error), blocks


async def test_each_step_that_takes_longer_than_a_retry_period_is_reported() -> None:
    assert await run(FakeClock()) == ("done", [3, 13])


async def test_a_step_that_ends_in_an_error_is_reported_and_the_error_passes() -> None:
    assert await run(FakeClock(), raises=ValueError("no")) == ("no", [3, 13])


async def test_the_step_that_runs_is_shown_while_it_runs() -> None:
    activity, shown = Activity(), list[object]()

    async def work() -> None:
        shown.append(activity.step)
        await asyncio.sleep(0)
        shown.append(activity.step)

    async def run_it() -> None:
        await stepwise(work(), activity, STEP, clock=FakeClock(), on_block=lambda _: None)

    task = asyncio.create_task(run_it())
    await asyncio.sleep(0)
    between = activity.step
    await task

    assert shown == [STEP, STEP]
    assert (between, activity.step) == (None, None)


async def test_what_is_driven_step_by_step_is_cancelled_like_any_task() -> None:
    told = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            await asyncio.sleep(0)
            told.append("cleaned up")
            raise

    async def main() -> None:
        await stepwise(work(), Activity(), STEP, clock=FakeClock(), on_block=lambda _: None)

    task = asyncio.create_task(main())
    await settle()
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert told == ["cancelled", "cleaned up"]


async def test_a_timeout_within_what_is_driven_step_by_step_is_its_own() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "late"

    assert (
        await stepwise(work(), Activity(), STEP, clock=FakeClock(), on_block=lambda _: None)
        == "in time"
    )


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
