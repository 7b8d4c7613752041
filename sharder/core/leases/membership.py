"""The members of a ring, and which of them can lose their objects at once.

An object must not be taken from a shard just because the shard is not available: if its Lease was
deleted by mistake, it might still work on the object.  So each shard has a standing
(docs/protocol.md, "When an object may be taken from a shard").
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import cached_property

from sharder.core.api.lease import Lease
from sharder.core.leases.shard import Shard
from sharder.core.leases.state import is_given_up, is_held, was_released
from sharder.core.leases.validity import LeaseValidity, classify
from sharder.core.names import RING_LABEL, RingName, ShardName


class Standing(IntEnum):
    """What can happen to the objects of a shard, the best first; the best is the lowest."""

    AVAILABLE = auto()
    """It owns objects and gets new ones."""
    LEAVING = auto()
    """It works, but its Lease is invalid: its objects are drained and it gets no new ones."""
    MISSING = auto()
    """It might be working: it keeps its objects and gets no new ones."""
    GONE = auto()
    """It has stopped: its objects can be taken at once."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """The standing of every shard of one ring at one moment."""

    standings: Mapping[ShardName, Standing]
    stranger: Standing
    """The standing of shards that are not in `standings`."""
    namespaces: Mapping[ShardName, str]
    """The namespace of each shard's Lease, available or not; of several Leases, the held one."""
    shards: Mapping[ShardName, Shard] = field(default_factory=dict, compare=False)
    """How each shard describes itself on that Lease."""
    validity: LeaseValidity = field(default_factory=lambda: classify((), ()), compare=False)
    """The Leases that the standings follow from; not compared, because only standings matter."""

    @cached_property
    def available(self) -> frozenset[ShardName]:
        """The shards that own objects and get new ones."""
        return frozenset(n for n, s in self.standings.items() if s is Standing.AVAILABLE)

    @cached_property
    def unable(self) -> Mapping[ShardName, str]:
        """The shards that cannot work, and why, as they say on their Leases."""
        return {name: each.problem for name, each in self.shards.items() if each.problem}

    @cached_property
    def _released(self) -> frozenset[ShardName]:
        """The shards that gave their Leases up themselves."""
        return frozenset(
            ShardName(each.metadata.name) for each in self.validity.leases if was_released(each)
        )

    def works(self, writer: ShardName) -> bool:
        """Return whether a shard that writes works on its objects, also if its Lease is unseen.

        A shard writes nothing between the release of its Lease and its next one.
        """
        return self.standing_of(writer) is not Standing.GONE or writer in self._released

    def standing_of(self, shard: ShardName) -> Standing:
        """Return the standing of a shard, known or unknown."""
        return self.standings.get(shard, self.stranger)


def ring_of(lease: Lease) -> RingName:
    """Return the ring in the Lease's label, empty if it has none."""
    return RingName(lease.metadata.label(RING_LABEL))


def standing_by(lease: Lease, problem: str | None) -> Standing:
    """Return the standing of a shard by its Lease alone."""
    if is_given_up(lease):
        return Standing.GONE
    if not is_held(lease):
        return Standing.MISSING
    return Standing.AVAILABLE if problem is None else Standing.LEAVING
