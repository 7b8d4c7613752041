"""Store the rings, the namespaces that they select and their snapshots; rebuild the snapshots."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from sharder.controllers.cache_events import RebuildThrottle
from sharder.controllers.scope import splits
from sharder.core.api.meta import LabelSelector, Resource
from sharder.core.api.ring import ControllerRing, StrategyName, UnreadableRing
from sharder.core.errors import ApiError
from sharder.core.leases.register import Membership
from sharder.core.names import GroupResource, RingName
from sharder.core.placement.strategies.hashing import HashRing
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.build import build, sharded_resources
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Changed, Listed, Objects, Removed
from sharder.runtime.clock import Clock

Labels = Mapping[str, str]


@dataclass(slots=True)
class _Selection:
    """The namespaces of one ring."""

    selector: LabelSelector
    names: frozenset[str]
    """The same object until the selection changes."""
    fresh: set[str] = field(default_factory=set)
    """Namespaces that have been selected since their creation: they were empty at first."""


class NamespaceSelection:
    """All namespaces, and the selections of all rings."""

    def __init__(self, excluded: frozenset[str]) -> None:
        """Start without namespaces; `excluded` namespaces are never selected."""
        self._excluded = excluded
        self._labels: dict[str, Labels] = {}
        self._selections: dict[RingName, _Selection] = {}
        self.known = frozenset[str]()
        """The names of all namespaces; the same object until one is created or deleted."""

    def replace(self, namespaces: Mapping[str, Labels]) -> set[RingName]:
        """Replace all namespaces; return the rings whose selection changes."""
        affected = set[RingName]()
        for name in self._labels.keys() - namespaces.keys():
            affected |= self._change(name, None)
        for name, labels in namespaces.items():
            affected |= self._change(name, labels)
        self.known = frozenset(self._labels)
        return affected

    def change(self, name: str, labels: Labels | None) -> set[RingName]:
        """Store a namespace, or with None remove it; return the rings whose selection changes."""
        affected = self._change(name, labels)
        if (name in self.known) != (name in self._labels):
            self.known = frozenset(self._labels)
        return affected

    def _change(self, name: str, labels: Labels | None) -> set[RingName]:
        before = self._labels.get(name)
        if labels == before:
            return set()
        if labels is None:
            del self._labels[name]
        else:
            self._labels[name] = labels
        affected = set[RingName]()
        for ring, selection in self._selections.items():
            selected = labels is not None and self._selects(selection.selector, name, labels)
            if selected != (name in selection.names):
                selection.names ^= {name}
                if selected and before is None:
                    selection.fresh.add(name)
                else:
                    selection.fresh.discard(name)
                affected.add(ring)
        return affected

    def of(self, ring: RingName, selector: LabelSelector) -> frozenset[str]:
        """Return the namespaces of a ring; the same object until they change."""
        selection = self._selections.get(ring)
        if selection is None or selection.selector != selector:
            selection = _Selection(selector, self.matching(selector))
            self._selections[ring] = selection
        return selection.names

    def selects(self, ring: RingName, name: str) -> bool | None:
        """Return whether the ring selects a namespace, None if one of them is unknown."""
        selection = self._selections.get(ring)
        return name in selection.names if selection and name in self._labels else None

    def is_fresh(self, ring: RingName, name: str) -> bool:
        """Return whether the ring has selected a namespace since the namespace was created."""
        selection = self._selections.get(ring)
        return selection is not None and name in selection.fresh

    def matching(self, selector: LabelSelector) -> frozenset[str]:
        """Return the namespaces that a selector selects now; the selector is not stored."""
        return frozenset(
            name for name, labels in self._labels.items() if self._selects(selector, name, labels)
        )

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._selections.pop(ring, None)

    def _selects(self, selector: LabelSelector, name: str, labels: Labels) -> bool:
        return name not in self._excluded and selector.matches(labels)


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
