"""How far the watch of one resource has come, and its whole objects in memory.

A watch shows all writes in order, so it has shown every write up to its position.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from sharder.core.api.meta import PartialObject, is_older
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Event, Listed, Removed
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import race
from sharder.shard.objects import Whole

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
        if is_reached(self._position, version):
            return
        is_shown, _ = await race(self._moves_to(version), self._clock.sleep(WAIT_SECONDS))
        if not is_shown:
            raise Unavailable(
                f"the watch has not shown this shard's writes for {WAIT_SECONDS:.0f}s"
            )

    async def until_written(self) -> None:
        """Return when the watch has shown all writes of this shard so far."""
        await self.until(self._written)

    async def _moves_to(self, version: str) -> None:
        while not is_reached(self._position, version):
            await self._moved.wait()


class ObjectCache:
    """The objects for which `keep` is True, indexed by their controllers.

    Only one watch updates the cache, so states arrive in order; answers to this shard's own
    requests are never stored.  Reads wait until the watch has shown this shard's writes.
    """

    def __init__(self, progress: Progress, keep: Callable[[PartialObject], bool]) -> None:
        self._progress = progress
        self._keep = keep
        self._objects: dict[ObjectRef, Whole] = {}
        self._children: dict[str, dict[ObjectRef, Whole]] = {}
        """By the uid of their controller."""

    def update(self, event: Event[PartialObject]) -> None:
        """Apply an event of the watch."""
        match event:
            case Listed(items):
                self._objects, self._children = {}, {}
                for obj in items:
                    self._put(obj)
            case Changed(obj):
                self.drop(obj.metadata.ref)
                self._put(obj)
            case Removed(obj):
                self.drop(obj.metadata.ref)

    def drop(self, ref: ObjectRef) -> None:
        """Drop an object that is gone, or that this shard has deleted."""
        before = self._objects.pop(ref, None)
        if before is None or before.metadata.controller is None:
            return
        uid = before.metadata.controller.uid
        siblings = self._children[uid]
        del siblings[ref]
        if not siblings:
            del self._children[uid]

    async def get(self, ref: ObjectRef) -> msgspec.Raw | None:
        """Return the object, None if it is not in the cache.

        Raises:
            Unavailable: the watch has not shown this shard's writes in time.
        """
        await self._progress.until_written()
        cached = self._objects.get(ref)
        return None if cached is None else msgspec.Raw(cached.raw)

    async def controlled_by(self, uid: str) -> list[msgspec.Raw]:
        """Return the children of the object with this uid, sorted by namespace and name.

        Raises:
            Unavailable: the watch has not shown this shard's writes in time.
        """
        await self._progress.until_written()
        children = self._children.get(uid, {})
        return [msgspec.Raw(children[ref].raw) for ref in sorted(children)]

    def _put(self, obj: PartialObject) -> None:
        if not isinstance(obj, Whole) or not self._keep(obj):
            return
        self._objects[obj.metadata.ref] = obj
        if obj.metadata.controller is not None:
            siblings = self._children.setdefault(obj.metadata.controller.uid, {})
            siblings[obj.metadata.ref] = obj
