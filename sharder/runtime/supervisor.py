"""Restart tasks that crash."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from sharder.core.errors import ConfigError, LeaseLost
from sharder.runtime.backoff import Backoff, Rng, failures_after
from sharder.runtime.clock import Clock

BACKOFF: Final = Backoff(base=1.0, cap=60.0)
"""The delay between a crash of a task and its restart."""

INSIST_SECONDS: Final = 10.0
"""A cancelled task that still runs after this time is cancelled again: up to Python 3.12, a
TaskGroup that is cancelled while one of its tasks fails raises only the failure, so the
cancellation is lost.  Longer than any clean-up takes."""

_log = logging.getLogger(__name__)


async def supervise(
    tasks: Mapping[str, Callable[[], Awaitable[None]]],
    *,
    clock: Clock,
    rng: Rng,
    on_crash: Callable[[str], None],
) -> None:
    """Run the named tasks until all have returned; restart tasks that crash.

    `on_crash` gets the name of a crashed task.  `LeaseLost` and `ConfigError` are not crashes: if
    a task raises one of them, all other tasks are cancelled, and it is raised in an
    ExceptionGroup.  A cancelled task is never restarted, even if it fails while it ends.
    """
    is_stopping = False

    async def keep_running(name: str, task: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            began = clock.monotonic()
            try:
                await task()
            except (LeaseLost, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001 - after any error the task must run again
                _log.exception(
                    "task crashed, restarting it", extra={"why": name, "error": repr(error)}
                )
                on_crash(name)
            else:
                return
            if is_stopping:
                # The error has replaced the cancellation.
                return
            failures = failures_after(failures, clock.monotonic() - began)
            await clock.sleep(BACKOFF.delay(failures, rng))

    async with asyncio.TaskGroup() as group:
        running = {
            group.create_task(keep_running(name, task), name=name) for name, task in tasks.items()
        }
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            is_stopping = True
            await _end(running)
            raise


async def _end(running: set[asyncio.Task[None]]) -> None:
    """Cancel tasks until all have ended; after a failure the group has already cancelled them."""
    has_failed = any(t.done() and not t.cancelled() and t.exception() for t in running)
    pending = {task for task in running if not task.done()}
    while pending:
        if not has_failed:
            for task in pending:
                task.cancel()
        has_failed = False
        _, pending = await asyncio.wait(pending, timeout=INSIST_SECONDS)
