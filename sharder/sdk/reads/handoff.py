"""Objects that arrive start only when their children are in the caches of this shard.

The sharder gives the children of an object to its new shard first, and then the object itself
(docs/protocol.md, "What moves first").  So a list of the children that begins after the object has
arrived shows all that its last shard has made, and a cache whose watch has come to the newest of
them has them too.
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
    """The same objects, by metadata, to list from etcd."""
    progress: Progress

    async def catch_up(self) -> None:
        """Return when the cache has what a list that begins now shows."""
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
        """Only what is cached is given."""
        self._main = main
        self._children = children
        self._arrivals: dict[ObjectRef, int] = {}
        self._serial = count()
        self._lock = asyncio.Lock()

    def arrived(self, ref: ObjectRef) -> None:
        """Note that this shard has the object from now on, or might have got it again."""
        if self._children:
            self._arrivals[ref] = next(self._serial)

    def left(self, ref: ObjectRef) -> None:
        """Note that this shard does not have the object."""
        self._arrivals.pop(ref, None)

    async def settle(self, ref: ObjectRef) -> None:
        """Return when the caches have all children that the object had when it arrived.

        They then also have what became of writes without an answer.  One list of each resource
        serves all objects that arrived before it began.

        Raises:
            ApiError: a list failed, or a watch does not show what it has shown.
        """
        while ref in self._arrivals or self._doubted():
            async with self._lock:
                if ref in self._arrivals:
                    await self._receive()
                for each in self._doubted():
                    await each.catch_up()

    def _doubted(self) -> list[Cached]:
        cached = (*self._children, *([self._main] if self._main else ()))
        return [each for each in cached if each.progress.is_doubted]

    async def _receive(self) -> None:
        arrivals = dict(self._arrivals)
        for each in self._children:
            await each.catch_up()
        for ref, serial in arrivals.items():
            if self._arrivals.get(ref) == serial:
                del self._arrivals[ref]
