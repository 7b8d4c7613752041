"""How far the watch of one resource has come, and waits until it shows this shard's writes.

A watch shows all writes in order, so it has shown every write up to its position.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from sharder.core.api.versions import is_older
from sharder.core.errors import Unavailable
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import race

WAIT_SECONDS: Final = 30.0
"""Limit of a wait for the watch: then the watch counts as broken, and the reconcile is retried."""


def is_reached(position: str, version: str) -> bool:
    """Return whether a watch that has come to `position` has shown `version`.

    The position is empty before the first list: it has reached nothing.  An empty version means no
    write: every other position has reached it.  Versions that are not numbers have no order: only
    an equal position has reached such a version.
    """
    if not position or not version:
        return bool(position)
    return position == version or is_older(version, position)


class Progress:
    """The position of a watch, and whether it has reached this shard's writes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._position = ""
        self._written = ""
        """The newest version that this shard has written."""
        self._moved = asyncio.Event()
        self.is_doubted = False
        """Whether a write had no answer, so that it might have happened at any version."""

    def wrote(self, version: str) -> None:
        """Note a write, by the API server's answer; the watch will show it."""
        if is_reached(version, self._written):
            self._written = version

    def move(self, position: str) -> None:
        """Note that the watch has shown everything up to `position`.

        At an earlier position than before, etcd was restored without this shard's last writes.
        """
        if is_older(position, self._position):
            self._written = ""
        self._position = position
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def until(self, version: str) -> None:
        """Return when the watch has shown `version`; if this is empty, when the watch has begun.

        Raises:
            Unavailable: the watch has not shown it within `WAIT_SECONDS`.
        """
        await self.until_true(lambda: is_reached(self._position, version))

    async def until_written(self) -> None:
        """Return when the watch has shown all writes of this shard so far."""
        await self.until(self._written)

    async def until_true(self, holds: Callable[[], bool]) -> None:
        """Return when `holds` is true, which is checked after each event of the watch.

        Raises:
            Unavailable: `holds` was not true within `WAIT_SECONDS`.
        """
        if holds():
            return
        is_shown, _ = await race(self._moves_until(holds), self._clock.sleep(WAIT_SECONDS))
        if not is_shown:
            raise Unavailable(
                f"the watch has not shown this shard's writes for {WAIT_SECONDS:.0f}s"
            )

    async def _moves_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._moved.wait()
