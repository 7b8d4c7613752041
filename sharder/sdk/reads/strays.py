"""Children that this shard has created, and that got another owner label than its own.

So answers a webhook that does not know yet that this shard is back.  The shard's watch follows its
own label and does not show such a child until the leader has corrected that; a shard that does not
wait for it would create another one.
"""

from collections.abc import Awaitable, Callable

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk.reads.objects import decode
from sharder.sdk.reads.owned import Identity, Ownership
from sharder.sdk.reads.progress import Progress


class Strays:
    """Those of one resource."""

    def __init__(
        self,
        identity: Identity,
        read: Callable[[ObjectRef], Awaitable[msgspec.Raw]],
        progress: Progress,
    ) -> None:
        """`read` returns an object as it is now (a quorum read)."""
        self._identity = identity
        self._read = read
        self._progress = progress
        self._children: dict[ObjectRef, ObjectMeta] = {}

    def notes(self, created: ObjectMeta) -> bool:
        """Return whether an object that was created is one of them, and remember it then."""
        is_stray = created.controller is not None and self._is_elsewhere(created)
        if is_stray:
            self._children[created.ref] = created
        return is_stray

    async def settle(self, uid: str) -> None:
        """Return when the watch shows all children of the object that this shard has created.

        Raises:
            Unavailable: one of them still has another label.
        """
        for ref, child in list(self._children.items()):
            if child.controller is not None and child.controller.uid == uid:
                await self._look(ref, child.uid)

    async def _look(self, ref: ObjectRef, uid: str) -> None:
        try:
            now = decode(await self._read(ref), PartialObject).metadata
        except NotFound:
            now = None
        if now is not None and now.uid == uid:
            if self._is_elsewhere(now):
                owner = now.label(self._identity.owner_label)
                raise Unavailable(
                    f"{ref}, which this shard has created, has the owner label {owner!r}"
                )
            self._progress.wrote(now)
        self._children.pop(ref, None)

    def _is_elsewhere(self, child: ObjectMeta) -> bool:
        return self._identity.ownership_of(child) is Ownership.ELSEWHERE
