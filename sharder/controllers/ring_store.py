"""Store the rings and their snapshots, and rebuild the snapshots."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from sharder.controllers.cache_events import RebuildThrottle
from sharder.controllers.namespace_selection import NamespaceSelection
from sharder.controllers.scope import splits
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing, StrategyName, UnreadableRing
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ApiError
from sharder.core.leases.register import Membership
from sharder.core.names import GroupResource, RingName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.build import build, sharded_resources
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Changed, Listed, Objects, Removed
from sharder.runtime.clock import Clock

MANY: Final = 128
"""From this number of shards on, they are hashed before the ring's snapshot is built."""


DISCOVERY_SECONDS: Final = 30.0
"""Seconds between two discovery requests for resources that were not served."""


class RingStore:
    """The rings, and one snapshot per ring; a rebuild replaces it by one assignment."""

    def __init__(
        self,
        *,
        membership: Membership,
        selections: NamespaceSelection,
        throttle: RebuildThrottle,
        objects: Objects,
        default_namespaces: LabelSelector,
        custom: Mapping[str, CustomFunction],
        clock: Clock,
    ) -> None:
        """Start empty.

        `default_namespaces` selects the namespaces of rings without a selector, and `custom` has
        the installed strategies by name.
        """
        self._membership = membership
        self._selections = selections
        self._throttle = throttle
        self._objects = objects
        self._default = default_namespaces
        self._custom = custom
        self._clock = clock
        self.rings: dict[RingName, ControllerRing] = {}
        self.unreadable: dict[RingName, UnreadableRing] = {}
        """Rings that cannot be decoded; `rings` has their last readable states."""
        self._served: dict[GroupResource, Resource] = {}
        """The rings' main resources, as the API server serves them.  Object keys contain the kind,
        so it is known before objects are placed."""
        self.listed = asyncio.Event()
        """Set after all rings were listed."""
        self._snapshots: dict[RingName, RingSnapshot] = {}

    def get(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot, None if there is none."""
        return self._snapshots.get(ring)

    def names(self) -> tuple[RingName, ...]:
        """Return the names of all rings with a snapshot, sorted."""
        return tuple(sorted(self._snapshots))

    def known(self) -> set[RingName]:
        """Return the names of all rings, readable or not."""
        return {*self.rings, *self.unreadable}

    async def store(
        self, event: Listed[ControllerRing] | Changed[ControllerRing] | Removed[ControllerRing]
    ) -> None:
        """Store rings as the watch shows them, and request the rebuild of changed rings."""
        match event:
            case Listed(items):
                await learn(self._objects, items, self._served)
                for name in self.known() - {ring.name for ring in items}:
                    self._forget(name)
                for ring in items:
                    self._see(ring)
                self.listed.set()
            case Changed(ring):
                await learn(self._objects, (ring,), self._served)
                self._see(ring)
            case Removed(ring):
                self._forget(ring.name)

    async def learn_resources(self) -> None:
        """Retry discovery of resources that were not served or could not be read."""
        while True:
            await self._clock.sleep(DISCOVERY_SECONDS)
            if await learn(self._objects, self.rings.values(), self._served):
                self._throttle.block(self.rings)

    def _forget(self, name: RingName) -> None:
        self.rings.pop(name, None)
        self.unreadable.pop(name, None)
        self._throttle.block({name})

    def _see(self, ring: ControllerRing) -> None:
        """Store a ring; a change of its status does not invalidate any step."""
        before = self.rings.get(ring.name)
        if isinstance(ring, UnreadableRing):
            # The last readable state stays in force, unless it belongs to another ring.
            if before is not None and before.metadata.uid != ring.metadata.uid:
                del self.rings[ring.name]
            self.unreadable[ring.name] = ring
            self._throttle.block({ring.name})
            return
        was_unreadable = self.unreadable.pop(ring.name, None) is not None
        self.rings[ring.name] = ring
        self._membership.expect(ring.name, ring.spec.shard_namespaces)
        if before is None or was_unreadable or _identity(before) != _identity(ring):
            self._throttle.block({ring.name})
        elif before != ring:
            self._throttle.add({ring.name})

    async def rebuild(self, name: RingName) -> tuple[RingSnapshot | None, RingSnapshot | None]:
        """Rebuild a ring's snapshot, or remove that of a deleted ring; return the old and the new.

        Between the last pause and the return, everything that is known is included.
        """
        hashed = await self._hash(name)
        ring, before = self.rings.get(name), self._snapshots.get(name)
        if ring is None:
            self._selections.forget(name)
            self._snapshots.pop(name, None)
            return before, None
        after = self._snapshots[name] = self._build(ring, before, hashed)
        return before, after

    async def _hash(self, name: RingName) -> HashRing | None:
        """Hash the shards of a ring in pieces if there are many; other tasks can run in between.

        Otherwise the rebuild would hash all of them at once.
        """
        ring, before = self.rings.get(name), self._snapshots.get(name)
        if ring is None or ring.spec.placement.strategy is not StrategyName.CONSISTENT_HASH:
            return None
        members = self._membership.members(
            name, self._clock.monotonic(), namespaces=ring.spec.shard_namespaces
        )
        names, known = members.available, before.members.available if before is not None else set()
        for hashed in HashRing.in_pieces(names) if len(names) >= MANY and names != known else ():
            if hashed is not None:
                return hashed
            await asyncio.sleep(0)
        return None

    def _build(
        self, ring: ControllerRing, before: RingSnapshot | None, hashed: HashRing | None
    ) -> RingSnapshot:
        """Return the ring's current snapshot: `before` itself if nothing has changed."""
        namespaces = self._selections.of(ring.name, ring.spec.namespace_selector or self._default)
        members = self._membership.members(
            ring.name, self._clock.monotonic(), namespaces=ring.spec.shard_namespaces
        )
        resources = sharded_resources(ring)
        served = tuple(self._served[r.id] for r in resources if r.id in self._served)
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
            hashed=hashed,
        )
        return self._split(snapshot)

    def _split(self, snapshot: RingSnapshot) -> RingSnapshot:
        ring, known = snapshot.ring, self._selections.known
        is_split = splits(ring, snapshot.namespaces, known, resources=len(snapshot.roles))
        return snapshot if snapshot.is_split == is_split else replace(snapshot, is_split=is_split)


async def learn(
    objects: Objects, rings: Iterable[ControllerRing], served: dict[GroupResource, Resource]
) -> bool:
    """Add the main resources of `rings` to those `served`; return whether any was found.

    A resource that cannot be discovered is not an error here: the resync reports it.
    """
    wanted = {resource.id for ring in rings for resource in sharded_resources(ring)}
    known = len(served)
    for resource in sorted(wanted - served.keys()):
        with suppress(ApiError):
            served[resource] = await objects.find(resource)
    return len(served) > known


def _identity(ring: ControllerRing) -> tuple[str, int]:
    """Return values that differ if two states of a ring can lead to different steps."""
    return ring.metadata.uid, ring.metadata.generation
