"""Children that this shard has created, but that got the owner label of another shard.

A webhook assigns a child like this if it does not know yet that this shard is back.  The watch of
this shard selects its own label, so it does not show the child until the leader has corrected the
label.  If the shard did not wait for the child, it would create a second one.
"""

from collections.abc import Awaitable, Callable

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk.reads.progress import Progress
from sharder.shard.identity import Identity, Ownership
from sharder.shard.objects import decode


class Strays:
    """The strays of one resource."""

    def __init__(
        self,
        identity: Identity,
        read: Callable[[ObjectRef], Awaitable[msgspec.Raw]],
        progress: Progress,
    ) -> None:
        """`read` reads an object from the API server (a quorum read)."""
        self._identity = identity
        self._read = read
        self._progress = progress
        self._children: dict[ObjectRef, ObjectMeta] = {}

    def notes(self, created: ObjectMeta) -> bool:
        """Return whether a created object is a stray, and remember it if so."""
        is_stray = created.controller is not None and self._is_elsewhere(created)
        if is_stray:
            self._children[created.ref] = created
        return is_stray

    async def settle(self, uid: str) -> None:
        """Read again the strays that the object with this uid controls.

        A child whose label was corrected is noted as a write, so that reads of the cache wait
        until the watch shows it.

        Raises:
            Unavailable: a child still has another owner label.
        """
        for ref, child in list(self._children.items()):
            if child.controller is not None and child.controller.uid == uid:
                await self._recheck(ref, child.uid)

    async def _recheck(self, ref: ObjectRef, uid: str) -> None:
        try:
            child = decode(await self._read(ref), PartialObject).metadata
        except NotFound:
            child = None
        if child is not None and child.uid == uid:
            if self._is_elsewhere(child):
                owner = child.label(self._identity.owner_label)
                raise Unavailable(
                    f"{ref}, which this shard has created, has the owner label {owner!r}"
                )
            self._progress.wrote(child)
        self._children.pop(ref, None)

    def _is_elsewhere(self, child: ObjectMeta) -> bool:
        return self._identity.ownership_of(child) is Ownership.ELSEWHERE
