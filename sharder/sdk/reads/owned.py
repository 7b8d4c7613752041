"""The shard's objects as its watch last showed them, and whether it can work on them.  Pure.

Only one watch updates the objects, so states arrive in order; answers to this shard's own requests
are never stored.
"""

import logging
from collections.abc import Iterable, Iterator

from sharder.core.errors import SharderError
from sharder.core.names import ObjectRef
from sharder.sdk.predicates import Predicate, any_change
from sharder.shard.identity import Identity, Ownership
from sharder.shard.objects import OwnMeta, OwnObject

_log = logging.getLogger(__name__)


class NotOwned(SharderError):
    """This shard does not own the object, or no longer owns it: stop working on it."""


class OwnedObjects:
    """The metadata of the shard's objects as the watch last showed it."""

    def __init__(self, identity: Identity, *, when: Predicate = any_change) -> None:
        """`when` is whether a change needs work while the object stays `OURS`."""
        self._identity = identity
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
        return Ownership.ELSEWHERE if meta is None else self._identity.ownership_of(meta)

    def replace(self, objects: Iterable[OwnObject]) -> frozenset[ObjectRef]:
        """Replace all objects; return the objects whose change needs work."""
        before, self._objects = self._objects, {o.metadata.ref: o.metadata for o in objects}
        return frozenset(
            ref
            for ref in before.keys() | self._objects.keys()
            if before.get(ref) != self._objects.get(ref)
            and self._needs_work(before.get(ref), self._objects.get(ref))
        )

    def update(self, obj: OwnObject) -> bool:
        """Store the object's current metadata; return whether the change needs work."""
        old = self._objects.get(obj.metadata.ref)
        self._objects[obj.metadata.ref] = obj.metadata
        return self._needs_work(old, obj.metadata)

    def forget(self, ref: ObjectRef, *, version: str = "") -> None:
        """Remove the object; with a `version`, only if it still has this resourceVersion."""
        meta = self._objects.get(ref)
        if meta is not None and version in {"", meta.resource_version}:
            del self._objects[ref]

    def _needs_work(self, old: OwnMeta | None, new: OwnMeta | None) -> bool:
        """Return whether a change needs work; arrivals, drains and departures always do."""
        if old is None or new is None or old.uid != new.uid:
            return True
        ownership = self._identity.ownership_of
        if not ownership(old) is ownership(new) is Ownership.OURS:
            return True
        try:
            return old.deletion_timestamp != new.deletion_timestamp or self._when(old, new)
        except Exception as error:  # noqa: BLE001 - one object must not stop the shard
            # The message repeats the fields: an author's log format might not show them.
            fields = {"object": str(new.ref), "error": repr(error)}
            text = "predicate failed, reconciling: %s: %r"
            _log.warning(text, new.ref, error, exc_info=True, extra=fields)
            return True
