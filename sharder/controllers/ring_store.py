"""Store the rings and the namespaces that they select, as the watches show them."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from sharder.core.api.meta import LabelSelector, PartialObject, Resource
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.errors import ApiError
from sharder.core.leases.register import Membership
from sharder.core.names import GroupResource, RingName
from sharder.core.ring.build import sharded_resources
from sharder.ports import Changed, Event, Listed, Objects, Removed
from sharder.runtime.reflector import V

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

    def store(self, event: Event[PartialObject]) -> set[RingName]:
        """Store namespaces as the watch shows them; return the rings whose selection changes."""
        shown = _shown(event, self._labels)
        affected = set[RingName]().union(*(self._change(*each) for each in shown.items()))
        if any((name in self.known) != (name in self._labels) for name in shown):
            self.known = frozenset(self._labels)
        return affected

    def _change(self, name: str, namespace: PartialObject | None) -> set[RingName]:
        before = self._labels.get(name)
        labels = None if namespace is None else namespace.metadata.labels or {}
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
            known = self._labels.items()
            names = frozenset(name for name, of in known if self._selects(selector, name, of))
            selection = self._selections[ring] = _Selection(selector, names)
        return selection.names

    def selects(self, ring: RingName, name: str) -> bool | None:
        """Return whether the ring selects a namespace, None if one of them is unknown."""
        selection = self._selections.get(ring)
        return name in selection.names if selection and name in self._labels else None

    def is_fresh(self, ring: RingName, name: str) -> bool:
        """Return whether the ring has selected a namespace since the namespace was created."""
        selection = self._selections.get(ring)
        return selection is not None and name in selection.fresh

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._selections.pop(ring, None)

    def _selects(self, selector: LabelSelector, name: str, labels: Labels) -> bool:
        return name not in self._excluded and selector.matches(labels)


class RingStore:
    """The rings, and which of their resources are served."""

    def __init__(self, membership: Membership, objects: Objects) -> None:
        self._membership = membership
        self._objects = objects
        self.rings: dict[RingName, ControllerRing] = {}
        self.unreadable: dict[RingName, UnreadableRing] = {}
        """Rings that cannot be decoded; `rings` has their last readable states."""
        self.served: dict[GroupResource, Resource] = {}
        """The rings' main resources, as the API server serves them.  Object keys contain the kind,
        so it is known before objects are placed."""
        self.listed = asyncio.Event()
        """Set after all rings were listed."""

    def known(self) -> set[RingName]:
        """Return the names of all rings, readable or not."""
        return {*self.rings, *self.unreadable}

    async def store(self, event: Event[ControllerRing]) -> set[RingName]:
        """Store rings as the watch shows them; return those that have changed."""
        shown = _shown(event, self.known())
        await learn(self._objects, filter(None, shown.values()), self.served)
        changed = {RingName(name) for name, ring in shown.items() if self._see(name, ring)}
        if isinstance(event, Listed):
            self.listed.set()
        return changed

    async def learn_resources(self) -> bool:
        """Retry discovery of resources that were not served or could not be read."""
        return await learn(self._objects, self.rings.values(), self.served)

    def _see(self, name: str, ring: ControllerRing | None) -> bool:
        """Store a ring, None if it was deleted; return whether it has changed."""
        if ring is None:
            self.rings.pop(RingName(name), None)
            self.unreadable.pop(RingName(name), None)
            return True
        before = self.rings.get(ring.name)
        if isinstance(ring, UnreadableRing):
            # The last readable state stays in force, unless it belongs to another ring.
            if before is not None and before.metadata.uid != ring.metadata.uid:
                del self.rings[ring.name]
            self.unreadable[ring.name] = ring
            return True
        was_unreadable = self.unreadable.pop(ring.name, None) is not None
        self.rings[ring.name] = ring
        self._membership.expect(ring.name, ring.spec.shard_namespaces)
        return was_unreadable or before != ring


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


def _shown(event: Event[V], known: Iterable[str]) -> dict[str, V | None]:
    """Return what an event shows by name, None for what is gone; a list shows all `known`."""
    match event:
        case Listed(items):
            return {**dict.fromkeys(known), **{each.metadata.name: each for each in items}}
        case Changed(obj):
            return {obj.metadata.name: obj}
        case Removed(obj):
            return {obj.metadata.name: None}
