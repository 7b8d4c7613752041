"""The shard's objects as its watch last showed them, and whether it can work on them.  Pure.

Only one watch updates the objects, so states arrive in order; answers to this shard's own requests
are never stored.
"""

import logging
from collections.abc import Iterator

from sharder.core.errors import SharderError
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Event, Listed, Removed
from sharder.sdk.reads.collection import Handoff
from sharder.sdk.reconciler import Predicate, any_change
from sharder.shard.identity import Identity, Ownership
from sharder.shard.objects import OwnMeta, OwnObject

_log = logging.getLogger(__name__)


class NotOwned(SharderError):
    """This shard does not own the object, or no longer owns it: stop working on it."""


class OwnedObjects:
    """The metadata of the shard's objects as the watch last showed it."""

    def __init__(
        self, identity: Identity, handoff: Handoff, *, when: Predicate = any_change
    ) -> None:
        """`when` is whether a change needs work while the object stays `OURS`."""
        self.identity = identity
        self._handoff = handoff
        self._when = when
        self._objects: dict[ObjectRef, OwnMeta] = {}

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(tuple(self._objects))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, ref: ObjectRef) -> OwnMeta | None:
        """Return the object's metadata, None if this shard does not have it."""
        return self._objects.get(ref)

    def ownership(self, ref: ObjectRef) -> Ownership:
        """Return the object's ownership, `ELSEWHERE` if it is unknown."""
        meta = self._objects.get(ref)
        return Ownership.ELSEWHERE if meta is None else self.identity.ownership_of(meta)

    def apply(self, event: Event[OwnObject]) -> list[ObjectRef]:
        """Apply an event of the watch; return the objects whose change needs work."""
        changes: dict[ObjectRef, OwnMeta | None]
        match event:
            case Listed(items):
                now = {each.metadata.ref: each.metadata for each in items}
                changes = {**dict.fromkeys(self._objects), **now}
            case Changed(obj):
                changes = {obj.metadata.ref: obj.metadata}
            case Removed(obj):
                changes = {obj.metadata.ref: None}
        is_list = isinstance(event, Listed)
        return [ref for ref, meta in changes.items() if self._change(ref, meta, is_list=is_list)]

    def _change(self, ref: ObjectRef, new: OwnMeta | None, *, is_list: bool) -> bool:
        """Store a state of an object, None if it is gone; return whether this needs work."""
        old = self._objects.pop(ref, None)
        if new is None:
            self._handoff.left(ref)
            return True
        self._objects[ref] = new
        if is_list or old is None or old.uid != new.uid:
            self._handoff.arrived(ref)  # or it might have left and returned before the list
        return old != new and self._needs_work(old, new)

    def forget(self, ref: ObjectRef, *, version: str = "") -> None:
        """Remove the object; with a `version`, only if it still has this resourceVersion."""
        meta = self._objects.get(ref)
        if meta is not None and version in {"", meta.resource_version}:
            del self._objects[ref]

    def _needs_work(self, old: OwnMeta | None, new: OwnMeta) -> bool:
        """Return whether a change needs work; arrivals and drains always do."""
        if old is None or old.uid != new.uid:
            return True
        ownership = self.identity.ownership_of
        if not ownership(old) is ownership(new) is Ownership.OURS:
            return True
        try:
            return old.deletion_timestamp != new.deletion_timestamp or self._when(old, new)
        except Exception as error:  # noqa: BLE001 - one object must not stop the shard
            fields = {"object": str(new.ref), "error": repr(error)}
            text = "predicate failed, reconciling: %s: %r"
            _log.warning(text, new.ref, error, exc_info=True, extra=fields)
            return True
