"""Drive a coroutine step by step, to measure how long each step blocks the event loop."""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Final, TypeVar

from sharder.runtime.clock import Clock

BLOCKED_SECONDS: Final = 2.0
"""A longer step is logged: the default retry period, so a renewal was late."""

T = TypeVar("T")


@coroutine
def stepwise(
    inner: Coroutine[object, object, T], *, clock: Clock, on_block: Callable[[float], None]
) -> Generator[object, object, T]:
    """Await `inner`; call `on_block` with the seconds of each step that blocked the loop.

    The code between two awaits is one step.  A process that was paused within one looks the same.
    """
    step = partial(inner.send, None)
    while True:
        began = clock.monotonic()
        try:
            awaited = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            if (seconds := clock.monotonic() - began) >= BLOCKED_SECONDS:
                on_block(seconds)
        try:
            received = yield awaited
        except BaseException as error:  # noqa: BLE001 - a cancellation is the inner one's too
            step = partial(inner.throw, error)
        else:
            step = partial(inner.send, received)
