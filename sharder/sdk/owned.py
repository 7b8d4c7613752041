"""What this shard has last seen of its objects, and what that allows.

Pure.  Fed by one watch alone, so that states come in the order in which they happened: answers to
our own requests are never mixed in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import SharderError
from sharder.core.names import ObjectRef, RingName, ShardName, drain_label, owner_label


class NotOwned(SharderError):  # noqa: N818 - reads as a fact, like its siblings
    """The object is not, or no longer, this shard's to work on: leave it and look again."""


class Ownership(Enum):
    """Where an object stands for this shard."""

    OURS = auto()
    """We own it and may work on it."""
    DRAINING = auto()
    """We own it and are asked to let go."""
    ELSEWHERE = auto()
    """It is another shard's, nobody's, or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which shard of which ring this is, and by which labels it knows its objects."""

    ring: RingName
    shard: ShardName

    @property
    def owner_label(self) -> str:
        """The label that names the owner."""
        return owner_label(self.ring)

    @property
    def drain_label(self) -> str:
        """The label that asks the owner to let go."""
        return drain_label(self.ring)

    @property
    def selector(self) -> str:
        """The label selector of all that this shard owns."""
        return f"{self.owner_label}={self.shard}"

    def position_of(self, meta: ObjectMeta) -> Ownership:
        """Return where the labels put an object."""
        if meta.label(self.owner_label) != self.shard:
            return Ownership.ELSEWHERE
        return Ownership.DRAINING if meta.has_label(self.drain_label) else Ownership.OURS


class OwnedObjects:
    """The metadata of the shard's objects as the watch last showed it."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._objects: dict[ObjectRef, ObjectMeta] = {}

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(tuple(self._objects))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, ref: ObjectRef) -> ObjectMeta | None:
        """Return the object's metadata, None if it is not here."""
        return self._objects.get(ref)

    def position(self, ref: ObjectRef) -> Ownership:
        """Return where the object stands."""
        meta = self._objects.get(ref)
        return Ownership.ELSEWHERE if meta is None else self._identity.position_of(meta)

    def replace(self, objects: Iterable[PartialObject]) -> frozenset[ObjectRef]:
        """Take `objects` as all there are; return those that differ from what was known."""
        before, self._objects = self._objects, {o.metadata.ref: o.metadata for o in objects}
        return frozenset(
            ref
            for ref in before.keys() | self._objects.keys()
            if before.get(ref) != self._objects.get(ref)
        )

    def see(self, obj: PartialObject) -> None:
        """Take note of an object as it is now."""
        self._objects[obj.metadata.ref] = obj.metadata

    def forget(self, ref: ObjectRef, *, version: str = "") -> None:
        """Take note that the object is not ours any more, if it is still as of `version`."""
        meta = self._objects.get(ref)
        if meta is not None and version in {"", meta.resource_version}:
            del self._objects[ref]
