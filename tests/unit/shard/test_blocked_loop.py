"""A blocked event loop is reported while it is blocked."""

import asyncio
import logging
import threading

import pytest
from typing_extensions import override

from sharder.runtime.clock import SystemClock
from sharder.sdk import Request
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.shard.blocked_loop import Watchdog, watched
from tests.unit.sdk.scene import Scene, at_work


class Blocked:
    """A watchdog whose checks are on time, while the loop is blocked."""

    def __init__(self, *, renew_deadline: float = 10.0) -> None:
        self.clock = FakeClock()
        self.watchdog = Watchdog(self.clock, renew_deadline=renew_deadline)

    async def last(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.25)):
            await self.clock.advance(0.25)
            self.watchdog.check()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_the_reconcile_that_blocks_is_named(caplog: pytest.LogCaptureFixture) -> None:
    scene, began = Scene(), asyncio.Event()

    async def reconcile(_: Request) -> None:
        blocked = Blocked()
        for _quarter in range(4):
            blocked.clock._elapsed += 0.25
            blocked.watchdog.check()
        began.set()

    await scene.create_secret("demo")
    async with at_work(scene, reconcile):
        await began.wait()

    (warning,) = warnings(caplog)
    assert warning.startswith(
        "event loop blocked for 1.0s by reconcile of default/demo: the Lease is not renewed "
        "meanwhile and is lost in 9.0s; now at "
    )


async def test_a_lease_that_is_short_is_warned_about_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await Blocked(renew_deadline=1.0).last(0.75)

    assert "is lost in 0.5s" in warnings(caplog)[0]


async def test_a_process_that_was_paused_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    blocked = Blocked()

    await blocked.clock.advance(60)
    blocked.watchdog.check()

    assert warnings(caplog) == []


async def test_a_real_block_is_reported_before_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    reported = threading.Event()

    class Noted(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            reported.set()

    logging.getLogger("sharder.shard.blocked_loop").addHandler(handler := Noted())

    with watched(SystemClock(), renew_deadline=0.5):
        is_reported = reported.wait(timeout=30)
    logging.getLogger("sharder.shard.blocked_loop").removeHandler(handler)

    assert is_reported
    assert "in test_a_real_block_is_reported_before_it_ends" in warnings(caplog)[0]
