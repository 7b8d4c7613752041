"""How far the watch of one resource has come, and its whole objects in memory.

A watch shows all writes in order, so it has shown every write up to its position.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject, is_older
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
        if self.goes_back_to(position):
            self._written = ""
        self._position = position
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def goes_back_to(self, position: str) -> bool:
        """Return whether etcd was restored if the watch goes on from `position`."""
        return is_older(position, self._position)

    def has_shown(self, version: str) -> bool:
        """Return whether the watch has shown `version`."""
        return is_reached(self._position, version)

    async def until(self, version: str) -> None:
        """Return when the watch has shown `version`; if this is empty, when the watch has begun.

        Raises:
            Unavailable: the watch has not shown it within `WAIT_SECONDS`.
        """
        if self.has_shown(version):
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
        while not self.has_shown(version):
            await self._moved.wait()


class ObjectCache:
    """The objects for which `keep` is True, indexed by their controllers.

    Only one watch updates the cache, so states arrive in order; answers to this shard's own
    requests are never stored.  Reads wait until the watch has shown this shard's writes.  The
    answer to a deletion has no version to wait for, so older states of the object are left out.
    """

    def __init__(self, progress: Progress, keep: Callable[[PartialObject], bool]) -> None:
        self._progress = progress
        self._keep = keep
        self._objects: dict[ObjectRef, Whole] = {}
        self._children: dict[str, dict[ObjectRef, Whole]] = {}
        """By the uid of their controller."""
        self._deleted: dict[ObjectRef, str] = {}
        """The last versions of what this shard has deleted, until the watch has shown that."""

    def update(self, event: Event[PartialObject]) -> None:
        """Apply an event of the watch."""
        match event:
            case Listed(items, version):
                self._objects, self._children = {}, {}
                self._forget_deleted(items, version)
                for obj in items:
                    self._put(obj)
            case Changed(obj):
                self._drop(obj.metadata.ref)
                self._put(obj)
            case Removed(obj):
                self._drop(obj.metadata.ref)
                self._is_deleted(obj.metadata)

    def deleted(self, meta: ObjectMeta) -> None:
        """Drop an object that this shard has deleted in this state, if it is not a later one."""
        ref, last = meta.ref, meta.resource_version
        cached = self._objects.get(ref)
        if cached is None and self._progress.has_shown(last):
            return  # the watch has shown the deletion too
        if cached is None or is_reached(last, cached.metadata.resource_version):
            self._drop(ref)
            self._deleted[ref] = last

    def _drop(self, ref: ObjectRef) -> None:
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

    def _is_deleted(self, meta: ObjectMeta) -> bool:
        """Return whether this shard has deleted the object since; a later state ends that."""
        if is_reached(self._deleted.get(meta.ref, ""), meta.resource_version):
            return True
        self._deleted.pop(meta.ref, None)
        return False

    def _forget_deleted(self, items: Sequence[PartialObject], version: str) -> None:
        """Forget deletions that a list shows, and all if etcd was restored."""
        if self._progress.goes_back_to(version):
            self._deleted = {}
        if self._deleted:
            shown = {obj.metadata.ref for obj in items}
            self._deleted = {
                ref: last
                for ref, last in self._deleted.items()
                if ref in shown or not is_reached(version, last)
            }

    def _put(self, obj: PartialObject) -> None:
        if self._is_deleted(obj.metadata) or not isinstance(obj, Whole) or not self._keep(obj):
            return
        self._objects[obj.metadata.ref] = obj
        if obj.metadata.controller is not None:
            siblings = self._children.setdefault(obj.metadata.controller.uid, {})
            siblings[obj.metadata.ref] = obj
