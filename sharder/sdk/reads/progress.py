"""How far the watch of one resource has come, and waits until it shows this shard's writes."""

import asyncio
from collections.abc import Callable
from typing import Final

from sharder.core.api.meta import ObjectMeta
from sharder.core.api.versions import is_older
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import race
from sharder.sdk.reads.versions import Writes, is_reached

WAIT_SECONDS: Final = 30.0
"""Limit of a wait for the watch: then the watch counts as broken, and the reconcile is retried."""


class Progress:
    """The position of a watch, and this shard's writes that it has not shown yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._position = ""
        self._writes = Writes()
        self._moved = asyncio.Event()
        self._is_doubted = False

    @property
    def is_doubted(self) -> bool:
        """Whether a write had no answer, so that it might have happened at any version."""
        return self._is_doubted

    def wrote(self, written: ObjectMeta) -> None:
        """Note a write: `written` is from the API server's answer, and the watch will show it."""
        self._writes.add(written)
        self._writes.shown(self._position)

    def doubt(self) -> None:
        """Note that a write had no answer."""
        self._is_doubted = True

    def trust(self) -> None:
        """Note that a list begins, which will show the results of writes without an answer."""
        self._is_doubted = False

    def move(self, position: str) -> None:
        """Note that the watch has shown everything up to `position`.

        At an earlier position than before, etcd was restored without this shard's last writes.
        """
        if is_older(position, self._position):
            self._writes = Writes()
        self._position = position
        self._writes.shown(position)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def until(self, version: str) -> None:
        """Return when the watch has shown `version`; if this is empty, when the watch has begun.

        Raises:
            Unavailable: the watch has not shown it within `WAIT_SECONDS`.
        """
        await self.until_true(lambda: is_reached(self._position, version))

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

    async def until_shown(self, ref: ObjectRef) -> None:
        """Return when the watch has shown this shard's writes to the object."""
        await self.until(self._writes.to(ref))

    async def until_children_shown(self, uid: str) -> None:
        """Return when the watch has shown this shard's writes to the object's children."""
        await self.until(self._writes.to_children_of(uid))
