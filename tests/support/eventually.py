"""Waiting for what a server does some time, and making sure of what it does not do.

A probe is an async function that says "not yet" by raising or by returning False.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

INTERVAL = 0.05
"""Seconds between two tries: below what a person notices, above what a server feels."""

LAST_TRY_SECONDS = 30.0
"""Seconds that the last try of `never` may take: cut off, it would tell nothing."""

T = TypeVar("T")
Probe: TypeAlias = Callable[[], Awaitable[T]]


async def eventually(probe: Probe[T], *, within: float) -> T:
    """Return what `probe` returns when it passes; raise with its last failure after `within` s.

    The probe is tried at least once.  A try is cut off when the time is up, which tells less than
    the failure before it.
    """
    deadline = time.monotonic() + within
    last: Exception | None = None
    while True:
        left = max(deadline - time.monotonic(), INTERVAL)
        try:
            return await _passing(probe, left)
        except Exception as failure:
            last = last if last and isinstance(failure, TimeoutError) else failure
            if time.monotonic() >= deadline:
                raise AssertionError(f"not within {within} s: {last!r}") from failure
        await asyncio.sleep(INTERVAL)


async def never(probe: Probe[T], *, during: float) -> None:
    """Raise as soon as `probe` passes; return after `during` s and a last try if it did not.

    Only False and AssertionError count as not passing: a probe that is broken is no proof.
    """
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        try:
            result = await _passing(probe, LAST_TRY_SECONDS)
        except AssertionError:
            await asyncio.sleep(INTERVAL)
        else:
            raise AssertionError(f"happened, with {result!r}")


async def _passing(probe: Probe[T], left: float) -> T:
    async with asyncio.timeout(left):
        result = await probe()
    assert result is not False, "the probe returned False"
    return result
