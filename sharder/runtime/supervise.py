"""Keep long tasks running."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from sharder.clock import Clock
from sharder.errors import ConfigError, LeaseLost
from sharder.runtime.backoff import Backoff, Rng

BACKOFF: Final = Backoff(base=1.0, cap=60.0)
_HEALTHY_SECONDS: Final = 300.0
"""A task that ran so long before it crashed is restarted as after its first crash."""

_log = logging.getLogger(__name__)


async def supervise(
    tasks: Mapping[str, Callable[[], Awaitable[None]]],
    *,
    clock: Clock,
    rng: Rng,
    on_crash: Callable[[str], None],
) -> None:
    """Run the named tasks until all have returned, restarting those that crash.

    `on_crash` is told the name of a task that crashed.  `LeaseLost` and `ConfigError` are no
    crashes: raised by a task itself they end all the others and come out in an
    ExceptionGroup.  Cancellation is the signal to stop.
    """

    async def keep_running(name: str, task: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            began = clock.monotonic()
            try:
                await task()
            except (LeaseLost, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it was, the task must run
                _log.exception("task crashed", extra={"why": name, "error": repr(error)})
                on_crash(name)
            else:
                return
            lasted = clock.monotonic() - began
            failures = 1 if lasted >= _HEALTHY_SECONDS else failures + 1
            await clock.sleep(BACKOFF.delay(failures, rng))

    async with asyncio.TaskGroup() as group:
        for name, task in tasks.items():
            group.create_task(keep_running(name, task), name=name)
