"""Store the snapshots of all rings, and rebuild them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sharder.controllers.namespace_selection import NamespaceSelection
from sharder.controllers.rest_mapper import RestMapper
from sharder.controllers.scope import splits
from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.api.selector import LabelSelector
from sharder.core.leases.register import Membership
from sharder.core.leases.state import is_held
from sharder.core.names import RingName, ShardName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.clock import Clock

MANY: Final = 128
"""From this number of new shards on, a ring's shards are hashed before its snapshot is built."""


class SnapshotStore:
    """One snapshot per ring; a rebuild replaces it by one assignment."""

    def __init__(
        self,
        *,
        membership: Membership,
        selections: NamespaceSelection,
        rest_mapper: RestMapper,
        default_namespaces: LabelSelector,
        custom: Mapping[str, CustomFunction],
        clock: Clock,
    ) -> None:
        """Start empty.

        Args:
            membership: Has the shards of each ring.
            selections: Has the namespaces of each ring.
            rest_mapper: Has the kinds of the rings' resources.
            default_namespaces: Selects namespaces for rings without a selector.
            custom: The installed strategies, by name.
            clock: For the standings of shards.
        """
        self._membership = membership
        self._selections = selections
        self._rest_mapper = rest_mapper
        self._default = default_namespaces
        self._custom = custom
        self._clock = clock
        self._snapshots: dict[RingName, RingSnapshot] = {}
        self._hashed: dict[RingName, HashRing] = {}
        """Shards that were hashed for the next snapshot of a ring."""

    def get(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot, None if there is none."""
        return self._snapshots.get(ring)

    def rings(self) -> tuple[RingName, ...]:
        """Return the names of all rings with a snapshot, sorted."""
        return tuple(sorted(self._snapshots))

    def uncounted(self) -> tuple[RingName, ...]:
        """Return the rings whose objects are not counted yet, sorted."""
        tallies = ((name, self._snapshots[name].tally) for name in self.rings())
        return tuple(name for name, tally in tallies if tally is not None and not tally.synced)

    def hashing(self, ring: ControllerRing) -> Iterator[None]:
        """Hash the shards of a ring in pieces if many are new; other tasks can run between pieces.

        Otherwise the next rebuild would hash all of them at once.
        """
        if ring.spec.placement.strategy is not StrategyName.CONSISTENT_HASH:
            return
        leases = (known.lease for known in self._membership.observed_leases(ring.name))
        names = {ShardName(lease.metadata.name) for lease in leases if is_held(lease)}
        before = self._snapshots.get(ring.name)
        if len(names - (before.members.available if before is not None else set())) < MANY:
            return
        for hashed in HashRing.in_pieces(names):
            if hashed is not None:
                self._hashed[ring.name] = hashed
            yield

    def rebuild(self, ring: ControllerRing) -> RingSnapshot:
        """Rebuild the ring's snapshot, store it, and return it."""
        snapshot = self._build(ring, self._snapshots.get(ring.name))
        self._snapshots[ring.name] = snapshot
        return snapshot

    def remove(self, ring: RingName) -> RingSnapshot | None:
        """Remove the snapshot of a deleted ring, and return it."""
        self._selections.forget(ring)
        self._hashed.pop(ring, None)
        return self._snapshots.pop(ring, None)

    def _build(self, ring: ControllerRing, before: RingSnapshot | None) -> RingSnapshot:
        """Return the ring's current snapshot: `before` itself if nothing has changed."""
        namespaces = self._selections.of(ring.name, ring.spec.namespace_selector or self._default)
        members = self._membership.members(
            ring.name,
            self._clock.monotonic(),
            namespaces=ring.spec.shard_namespaces,
        )
        served = tuple(self._rest_mapper.of(ring))
        if (
            before is not None
            and before.ring is ring
            and before.members is members
            and len(before.kinds) == len(served)
        ):
            if before.namespaces is namespaces:
                return before
            return self._split(replace(before, namespaces=namespaces))
        snapshot = build(
            ring,
            members=members,
            namespaces=namespaces,
            served=served,
            custom=self._custom,
            previous=before,
            hashed=self._hashed.pop(ring.name, None),
        )
        return self._split(snapshot)

    def _split(self, snapshot: RingSnapshot) -> RingSnapshot:
        ring, known = snapshot.ring, self._selections.known
        is_split = splits(ring, snapshot.namespaces, known, resources=len(snapshot.roles))
        return snapshot if snapshot.is_split == is_split else replace(snapshot, is_split=is_split)
