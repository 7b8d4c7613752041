"""Whether the shard can act on one object, for the duration of one reconcile."""

from typing import NoReturn

from sharder.core.errors import LeaseLost, SharderError
from sharder.core.names import ObjectRef
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.identity import Ownership
from sharder.shard.objects import OwnMeta


class Permit:
    """The permission to act on one object; it ends with the reconcile."""

    def __init__(self, ref: ObjectRef, uid: str, context: ResourceContext) -> None:
        self._ref = ref
        self._uid = uid
        self._context = context
        self._is_open = True
        self.was_refused = False
        """Whether a check has failed, so that a failure of the reconcile is no error."""

    def check(self, seen: OwnMeta) -> None:
        """Raise unless this shard can act now; `seen` is the object as the request last saw it.

        Raises:
            LeaseLost: another holder has the Lease, or might have it.
            NotOwned: the object is draining or has left this shard, or the reconcile has ended.
        """
        if not self._context.holds_lease():
            self._refuse(LeaseLost, "must not act: its Lease was not renewed")
        if not self._is_open:
            self._refuse(NotOwned, "must not act: the reconcile has ended")
        for meta in (self._context.owned.get(self._ref), seen):
            self.require_ours(meta)

    def require_ours(self, meta: OwnMeta | None) -> None:
        """Raise `NotOwned` unless `meta` is a state in which this shard owns the object."""
        if meta is None or meta.uid != self._uid:
            self._refuse(NotOwned, "no longer has it, or it was deleted")
        if self._context.identity.ownership_of(meta) is not Ownership.OURS:
            self._refuse(NotOwned, "does not own it, or has to release it")

    def close(self) -> None:
        """End the permission."""
        self._is_open = False

    def _refuse(self, error: type[SharderError], why: str) -> NoReturn:
        self.was_refused = True
        raise error(f"{self._ref}: shard {self._context.identity.shard} {why}")
