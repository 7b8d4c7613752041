"""End a shard by SIGTERM or SIGINT: cleanly, and at the second signal at once."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


async def until_signal(
    serve: Callable[[], Awaitable[None]],
    stop: Callable[[], None],
    fields: Callable[[], Mapping[str, str]],
) -> None:
    """Await `serve`; the first signal calls `stop`, the second cancels.

    `fields` are those of log records about the shard.
    """
    loop = asyncio.get_running_loop()
    scope = asyncio.timeout(None)
    signals = count(1)

    def on_signal() -> None:
        number = next(signals)
        if number == 1:
            stop()
        elif number == 2:
            _log.warning("stopping at once", extra=dict(fields()))
            scope.reschedule(loop.time())

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        async with scope:
            await serve()
    except TimeoutError:
        if not scope.expired():
            raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
