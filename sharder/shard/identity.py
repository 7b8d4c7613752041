"""The shard, its ring and its resources, and what the labels of an object say to it.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from sharder.core.api.meta import ObjectMeta
from sharder.core.api.ring import ControllerRing
from sharder.core.names import GroupResource, RingName, ShardName, drain_label, owner_label


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
    def fields(self) -> dict[str, str]:
        """The fields of a log record."""
        return {"ring": self.ring, "shard": self.shard}

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


Handled: TypeAlias = Mapping[GroupResource, Sequence[GroupResource]]
"""The main resources that a shard reconciles, and the resources of the children of each."""


def handled_of(ring: ControllerRing) -> Handled:
    """Return the same of a shard that reconciles all of a ring."""
    return {each.id: [of.id for of in each.controlled_resources] for each in ring.spec.resources}


def children_of(handled: Handled) -> Sequence[GroupResource]:
    """Return the resources of children, each once."""
    return tuple(dict.fromkeys(child for owns in handled.values() for child in owns))


def resources_of(handled: Handled) -> Sequence[GroupResource]:
    """Return all resources, each once."""
    return (*handled, *children_of(handled))
