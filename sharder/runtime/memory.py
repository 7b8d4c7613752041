"""Give memory back to the system, which glibc's allocator does late or never.

glibc keeps freed pages that lie between live blocks, and it takes large blocks from the same heap
once it has seen one freed.  A burst of connections would then cost its peak for ever: uvloop
reserves 256 KiB for each connection with TLS and touches little of it.  Other C libraries have
neither call, and need none.

And keep what lives long out of Python's garbage collections: one over all that a leader of 1,000
rings has blocks the event loop for 150 ms, and finds nothing.
"""

import asyncio
import ctypes
import gc
from contextlib import suppress
from typing import Final, NoReturn

from sharder.runtime.clock import Clock

TRIM_SECONDS: Final = 10.0
"""Between two trims; each takes 3 to 15 ms per 200 MB of heap."""

LARGE_BYTES: Final = 128 * 1024
"""Blocks from here on are mapped one by one; glibc's own first value."""

SETTLE_SECONDS: Final = 10.0
"""How long a new leader creates what it needs: watches, queues, the first passes."""

_M_MMAP_THRESHOLD: Final = -3
"""From malloc.h."""


async def keep_trimmed(clock: Clock) -> NoReturn:
    """Map large blocks one by one from now on, and trim the heap now and then."""
    _call("mallopt", _M_MMAP_THRESHOLD, LARGE_BYTES)
    while True:
        await clock.sleep(TRIM_SECONDS)
        trim()


def trim() -> None:
    """Return all free pages of the heap."""
    _call("malloc_trim", 0)


def settle_soon() -> None:
    """Pause collections, and exclude from them what is there when the leader has settled."""
    gc.disable()
    asyncio.get_running_loop().call_later(SETTLE_SECONDS, settled)


def settled() -> None:
    """Exclude all that is there now from collections, which go on with what comes."""
    gc.freeze()
    gc.enable()


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library, if it has it."""
    with suppress(AttributeError):
        ctypes.CDLL(None)[name](*arguments)
