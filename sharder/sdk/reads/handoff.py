"""Reconcile an object that arrives only after the caches of this shard have its children.

The sharder assigns the children of an object to its new shard first, and then the object itself
(docs/protocol.md, "What moves first").  So a list of children that begins after the object has
arrived shows all children that the previous shard has created.  When the watch has reached the
newest version in this list, the cache has these children too.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from sharder.core.api.meta import PartialObject
from sharder.core.names import ObjectRef
from sharder.ports import Watchable
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.versions import newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """A resource whose objects this shard keeps in memory."""

    now: Watchable[PartialObject]
    """The metadata of the same objects, to list from etcd."""
    progress: Progress

    async def catch_up(self) -> None:
        """List the objects now, and return when the cache has everything that the list shows."""
        last = ""

        def note(obj: PartialObject) -> bool:
            nonlocal last
            last = newest((last, obj.metadata.resource_version))
            return False

        self.progress.trust()
        try:
            await self.now.list(note)
            await self.progress.until(last)
        except BaseException:
            self.progress.doubt()
            raise


class Handoff:
    """The objects whose children might be missing in the caches."""

    def __init__(self, *, main: Cached | None, children: Sequence[Cached]) -> None:
        """`main` and `children` are the cached resources only."""
        self._main = main
        self._children = children
        self._arrivals: dict[ObjectRef, int] = {}
        self._serial = count()
        self._lock = asyncio.Lock()

    def arrived(self, ref: ObjectRef) -> None:
        """Note that the object has arrived at this shard, or might have left and returned."""
        if self._children:
            self._arrivals[ref] = next(self._serial)

    def left(self, ref: ObjectRef) -> None:
        """Note that the object has left this shard."""
        self._arrivals.pop(ref, None)

    async def settle(self, ref: ObjectRef) -> None:
        """Return when the caches have all children that the object had when it arrived.

        The caches then also have the results of writes that had no answer.  One list of each
        resource serves all objects that arrived before the list began.

        Raises:
            ApiError: a list failed, or a watch has not reached the list in time.
        """
        while ref in self._arrivals or self._doubted():
            async with self._lock:
                if ref in self._arrivals:
                    await self._settle_arrivals()
                for each in self._doubted():
                    await each.catch_up()

    def _doubted(self) -> list[Cached]:
        cached = (*self._children, *([self._main] if self._main else ()))
        return [each for each in cached if each.progress.is_doubted]

    async def _settle_arrivals(self) -> None:
        arrivals = dict(self._arrivals)
        for each in self._children:
            await each.catch_up()
        for ref, serial in arrivals.items():
            if self._arrivals.get(ref) == serial:
                del self._arrivals[ref]
