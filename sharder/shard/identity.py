"""The shard and its ring, and what the labels of an object say to this shard.  Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from sharder.core.api.meta import ObjectMeta
from sharder.core.names import RingName, ShardName, drain_label, owner_label


class Ownership(Enum):
    """The relation of an object to this shard."""

    OURS = auto()
    """This shard owns the object and can work on it."""
    DRAINING = auto()
    """This shard owns the object, and must acknowledge its drain."""
    ELSEWHERE = auto()
    """Another shard owns the object, or the object is unassigned or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The shard and its ring, and the labels of its objects."""

    ring: RingName
    shard: ShardName

    @property
    def owner_label(self) -> str:
        """The label that names the owner."""
        return owner_label(self.ring)

    @property
    def drain_label(self) -> str:
        """The label that requests a drain."""
        return drain_label(self.ring)

    @property
    def selector(self) -> str:
        """The label selector of the shard's objects."""
        return f"{self.owner_label}={self.shard}"

    def ownership_of(self, meta: ObjectMeta) -> Ownership:
        """Return the ownership of an object according to its labels."""
        if meta.label(self.owner_label) != self.shard:
            return Ownership.ELSEWHERE
        return Ownership.DRAINING if meta.has_label(self.drain_label) else Ownership.OURS
