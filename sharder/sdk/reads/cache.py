"""Whole objects of one resource in memory, as their watch last showed them."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from sharder.core.api.meta import PartialObject
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Listed, Removed
from sharder.sdk.reads.progress import Progress, is_reached
from sharder.shard.objects import Whole

Event: TypeAlias = Listed[PartialObject] | Changed[PartialObject] | Removed[PartialObject]


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
        self._deleted: dict[ObjectRef, str] = {}
        """Objects that this shard has deleted and the watch still shows, with their versions."""

    def update(self, event: Event) -> None:
        """Apply an event of the watch."""
        match event:
            case Listed(items):
                self._objects, self._children, self._deleted = {}, {}, {}
                for obj in items:
                    self._put(obj)
            case Changed(obj):
                self._drop(obj.metadata.ref)
                self._put(obj)
            case Removed(obj):
                self._drop(obj.metadata.ref)

    def deleted(self, ref: ObjectRef, version: str) -> None:
        """Note that this version was deleted: reads wait until the watch shows the result."""
        cached = self._objects.get(ref)
        if cached is not None and is_reached(version, cached.metadata.resource_version):
            self._deleted[ref] = version

    async def get(self, ref: ObjectRef) -> msgspec.Raw | None:
        """Return the object.

        None if it is not in the cache, or if a write had no answer, so that only the API server
        knows the object's state.

        Raises:
            Unavailable: the watch has not shown this shard's writes in time.
        """
        if self._progress.is_doubted:
            return None
        await self._progress.until_written()
        await self._progress.until_true(lambda: ref not in self._deleted)
        cached = self._objects.get(ref)
        return None if cached is None else msgspec.Raw(cached.raw)

    async def controlled_by(self, uid: str) -> list[msgspec.Raw]:
        """Return the children of the object with this uid, sorted by namespace and name.

        Raises:
            Unavailable: the watch has not shown this shard's writes in time, or a write had no
                answer.
        """
        if self._progress.is_doubted:
            raise Unavailable("a write had no answer: the children have to be listed again")
        await self._progress.until_written()
        await self._progress.until_true(
            lambda: self._deleted.keys().isdisjoint(self._children.get(uid, {}))
        )
        children = self._children.get(uid, {})
        return [msgspec.Raw(children[ref].raw) for ref in sorted(children)]

    def _put(self, obj: PartialObject) -> None:
        if not isinstance(obj, Whole) or not self._keep(obj):
            return
        self._objects[obj.metadata.ref] = obj
        if obj.metadata.controller is not None:
            siblings = self._children.setdefault(obj.metadata.controller.uid, {})
            siblings[obj.metadata.ref] = obj

    def _drop(self, ref: ObjectRef) -> None:
        self._deleted.pop(ref, None)
        before = self._objects.pop(ref, None)
        if before is None or before.metadata.controller is None:
            return
        uid = before.metadata.controller.uid
        siblings = self._children[uid]
        del siblings[ref]
        if not siblings:
            del self._children[uid]
