"""Reconcile an object that arrives only after the caches of this shard have its children.

The sharder assigns the children of an object to its new shard first, and then the object itself
(docs/protocol.md, "What moves first").  So a list of children that begins after the object has
arrived shows all children that the previous shard has created.  When the watch has reached the
newest version in this list, the cache has these children too.
"""

import asyncio
from collections.abc import Iterable
from itertools import count

from sharder.core.names import ObjectRef
from sharder.sdk.reads.collection import Collected


class Handoff:
    """The objects whose children might be missing in the caches."""

    def __init__(self, main: Collected, children: Iterable[Collected]) -> None:
        self._children = [each for each in children if each.cache]
        self._cached = [*self._children, *([main] if main.cache else ())]
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
                    arrivals = dict(self._arrivals)
                    for each in self._children:
                        await each.catch_up()
                    for arrived, serial in arrivals.items():
                        if self._arrivals.get(arrived) == serial:
                            del self._arrivals[arrived]
                for each in self._doubted():
                    await each.catch_up()

    def _doubted(self) -> list[Collected]:
        return [each for each in self._cached if each.progress.is_doubted]
