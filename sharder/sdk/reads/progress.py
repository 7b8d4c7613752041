"""How far the watch of one resource has come, and waits until it shows this shard's writes.

A watch shows all writes in order, so it has shown every write up to its position.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from sharder.core.api.meta import ObjectMeta
from sharder.core.api.versions import is_older
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import race
from sharder.shard.objects import is_controlled

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
    """The position of a watch, and this shard's writes that it has not shown yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._position = ""
        self._writes: dict[ObjectRef, ObjectMeta] = {}
        """The last write to each object, until the watch has shown it."""
        self._moved = asyncio.Event()
        self.is_doubted = False
        """Whether a write had no answer, so that it might have happened at any version."""

    def wrote(self, written: ObjectMeta) -> None:
        """Note a write: `written` is from the API server's answer, and the watch will show it."""
        before, version = self._writes.get(written.ref), written.resource_version
        is_new = before is None or is_reached(version, before.resource_version)
        if is_new and not is_reached(self._position, version):
            self._writes[written.ref] = written

    def move(self, position: str) -> None:
        """Note that the watch has shown everything up to `position`.

        At an earlier position than before, etcd was restored without this shard's last writes.
        """
        is_restored = is_older(position, self._position)
        self._position = position
        self._writes = {
            ref: written
            for ref, written in self._writes.items()
            if not (is_restored or is_reached(position, written.resource_version))
        }
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def until(self, version: str) -> None:
        """Return when the watch has shown `version`; if this is empty, when the watch has begun.

        Raises:
            Unavailable: the watch has not shown it within `WAIT_SECONDS`.
        """
        await self.until_true(lambda: is_reached(self._position, version))

    async def until_shown(self, ref: ObjectRef) -> None:
        """Return when the watch has shown this shard's writes to the object."""
        await self.until_true(lambda: bool(self._position) and ref not in self._writes)

    async def until_children_shown(self, uid: str) -> None:
        """Return when the watch has shown this shard's writes to the object's children."""
        await self.until_true(
            lambda: (
                bool(self._position)
                and not any(is_controlled(each, uid) for each in self._writes.values())
            )
        )

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
