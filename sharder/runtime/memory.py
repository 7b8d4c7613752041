"""Return memory to the system, and exclude long-lived objects from garbage collections.

glibc's allocator returns memory late or never.  It keeps freed pages between live blocks, and
after one large block was freed, it allocates large blocks on the same heap.  So the memory of a
burst of connections would never be returned: uvloop reserves 256 KiB for each TLS connection, and
uses little of it.  Other C libraries do not have the two functions, and do not need them.

A garbage collection of everything in a leader of 1,000 rings blocks the event loop for 150 ms, and
frees nothing.
"""

import asyncio
import ctypes
import gc
from contextlib import suppress
from typing import Final, NoReturn

from sharder.runtime.clock import Clock

TRIM_SECONDS: Final = 10.0
"""Seconds between two trims; each trim takes 3 to 15 ms per 200 MB of heap."""

LARGE_BYTES: Final = 128 * 1024
"""Blocks of at least this size are mapped one by one; the initial threshold of glibc."""

SETTLE_SECONDS: Final = 10.0
"""How long a new leader creates long-lived objects: watches, queues, the first passes."""

_M_MMAP_THRESHOLD: Final = -3
"""From malloc.h."""


async def keep_trimmed(clock: Clock) -> NoReturn:
    """Map large blocks one by one from now on, and trim the heap every `TRIM_SECONDS`."""
    _call("mallopt", _M_MMAP_THRESHOLD, LARGE_BYTES)
    while True:
        await clock.sleep(TRIM_SECONDS)
        _call("malloc_trim", 0)  # returns all free pages of the heap


def settle_soon() -> None:
    """Pause garbage collections for `SETTLE_SECONDS`, then call `settled`."""
    gc.disable()
    asyncio.get_running_loop().call_later(SETTLE_SECONDS, settled)


def settled() -> None:
    """Exclude all current objects from garbage collections, and resume these for new objects."""
    gc.freeze()
    gc.enable()


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library, if this function exists."""
    with suppress(AttributeError):
        ctypes.CDLL(None)[name](*arguments)
