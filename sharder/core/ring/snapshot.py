"""Everything that decisions about one ring depend on, as one immutable value.

A watch event replaces a ring's snapshot with one assignment, so a reader of the old snapshot still
decides consistently.  Admission reads nothing else, except the live counts if the strategy sticks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from sharder.core.api.meta import PartialObject, number_of
from sharder.core.api.ring import ControllerRing, HashKey, RingResource
from sharder.core.keys import main_key, namespace_key, owner_key
from sharder.core.leases.membership import Members
from sharder.core.names import RECALLED, GroupResource, RingName, ShardName, is_label_value
from sharder.core.placement.counts import NO_COUNTS, Counts, Entry
from sharder.core.placement.demand import Demand, Reader, identity_of
from sharder.core.placement.placer import Placer
from sharder.core.placement.tally import Tally


class Role(Enum):
    """How a ring treats the objects of a resource."""

    MAIN = auto()
    """They are placed by their own key."""
    LEADING = auto()
    """They are placed by their own key, and have controlled objects, which move first."""
    CONTROLLED = auto()
    """They follow the object that controls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MainKind:
    """The kind of a main resource, which says how its objects and their children are hashed."""

    resource: GroupResource
    hash_key: HashKey
    namespaced: bool
    leads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSnapshot:
    """One ring at one moment: its resources, its members and how objects are placed on them."""

    ring: ControllerRing
    resources: tuple[RingResource, ...]
    """The main resources, without those that are never sharded."""
    roles: Mapping[GroupResource, Role]
    kinds: Mapping[tuple[str, str], MainKind]
    """The kinds of the main resources that the API server serves, by group and kind."""
    cluster_scoped: frozenset[GroupResource]
    """The served main resources whose objects have no namespace."""
    members: Members
    placer: Placer
    reader: Reader
    tally: Tally | None
    """The live counts of the objects; None for a strategy that follows."""
    namespaces: frozenset[str]
    """The namespaces that the ring selects."""
    is_split: bool = True
    """Whether the objects of each of these namespaces are listed and watched on their own."""
    owner_label: str
    drain_label: str
    pin_label: str
    next_annotation: str
    epoch: object = field(compare=False, repr=False)
    """All that steps depend on.  The next snapshot has the same object if it leads to the same
    steps for every object that both select.  The ring's status and labels do not matter, nor
    whether available shards renew their Leases in time: a strategy that sticks uses that to place
    objects, but not to move them."""

    @property
    def name(self) -> RingName:
        """The ring's name."""
        return self.ring.name

    @property
    def counts(self) -> Counts:
        """The counts that the strategy uses."""
        return NO_COUNTS if self.tally is None else self.tally

    def wanted(self, key: str | None) -> ShardName | None:
        """Return the shard for a key alone, None without a key or without a shard."""
        return None if key is None else self.placer.place(Demand(key, 0), self.counts).shard

    def demand_of(
        self, obj: PartialObject, current: ShardName | None, *, moves: bool = False
    ) -> Demand:
        """Return what a main object asks for; `current` is the shard that works on it.

        `moves` is for an object whose shard is gone, has released it, or has to release it.
        """
        key = main_key(obj)
        return self.reader.demand(
            obj,
            key=_hashed(key, self.kinds.get((obj.group, obj.kind))),
            identity=0 if self.tally is None else identity_of(key),
            current=current,
            moves=moves,
        )

    def identity_of(self, obj: PartialObject) -> int:
        """Return the identity by which a main object is counted."""
        return identity_of(main_key(obj))

    def entry_of(self, obj: PartialObject) -> Entry:
        """Return how a main object counts now."""
        shard = self.owner_of(obj)
        draining = shard is not None and self.is_draining(obj)
        # A released object keeps its room on the target until it has arrived.
        heading = self.direction_of(obj) if draining or shard is None else None
        return self.entry_on(
            obj, shard, draining=draining, heading=None if heading == shard else heading
        )

    def entry_on(
        self,
        obj: PartialObject,
        shard: ShardName | None,
        *,
        draining: bool = False,
        heading: ShardName | None = None,
    ) -> Entry:
        """Return how a main object would count on `shard`; `heading` is its target, if any."""
        return Entry(
            shard,
            self.reader.groups_of(obj),
            draining=draining,
            deleting=obj.metadata.deletion_timestamp is not None,
            pinned=shard is not None and self.reader.pin_of(obj) is not None,
            heading=heading,
        )

    def key_of(self, obj: PartialObject, role: Role) -> str | None:
        """Return the key by which the object is hashed; None: controlled, without a controller."""
        if role is Role.CONTROLLED:
            kind, key = self._controller_kind(obj), self.controller_key(obj)
        else:
            kind, key = self.kinds.get((obj.group, obj.kind)), main_key(obj)
        return None if key is None else _hashed(key, kind)

    def controller_key(self, obj: PartialObject) -> str | None:
        """Return the `main_key` of the controller of `obj`, None if it has none.

        The controller is in the object's namespace, or in none if its kind is cluster-scoped.
        """
        owner = obj.metadata.controller
        if owner is None:
            return None
        kind = self._controller_kind(obj)
        namespaced = kind is None or kind.namespaced
        return owner_key(owner, obj.metadata.namespace if namespaced else "")

    def is_controlled_by_another(self, child: PartialObject) -> bool:
        """Return whether the controller of `child` is known to be no main object of the ring."""
        owner = child.metadata.controller
        all_known = len(self.kinds) >= len(self.resources)
        return owner is not None and all_known and (owner.group, owner.kind) not in self.kinds

    def controller_resource(self, child: PartialObject) -> GroupResource | None:
        """Return the main resource of the controller of `child`, None if it is of no known one."""
        kind = self._controller_kind(child)
        return None if kind is None else kind.resource

    def owner_of(self, obj: PartialObject) -> ShardName | None:
        """Return the shard in the object's owner label, None if the object is unassigned."""
        value = obj.metadata.label(self.owner_label)
        return ShardName(value) if value else None

    def direction_of(self, obj: PartialObject) -> ShardName | None:
        """Return the shard in the object's `next` annotation, None if it is missing or invalid."""
        shard = obj.metadata.annotation(self.next_annotation)
        return ShardName(shard) if is_label_value(shard) else None

    def has_next(self, obj: PartialObject) -> bool:
        """Return whether the object was drained or sent: it has a `next`, which can be empty."""
        return self.next_annotation in (obj.metadata.annotations or {})

    def leads(self, obj: PartialObject) -> bool:
        """Return whether the object is of a leading resource."""
        kind = self.kinds.get((obj.group, obj.kind))
        return kind is not None and kind.leads

    def is_draining(self, obj: PartialObject) -> bool:
        """Return whether the object has the drain label."""
        return obj.metadata.has_label(self.drain_label)

    def is_recalled(self, obj: PartialObject) -> bool:
        """Return whether 0.2.0 recalled the object: its children move, or have moved, elsewhere.

        Its shard was gone at that time.  If the shard returns, it releases the object like any
        other draining object.  Today such an object is sent.
        """
        return obj.metadata.label(self.drain_label) == RECALLED

    def selects(self, obj: PartialObject, role: Role = Role.MAIN) -> bool:
        """Return whether the object is in scope, by its labels and its namespace.

        A Namespace object counts as being in that namespace.  Other cluster-scoped objects are in
        no namespace.
        """
        if not self.matches(obj, role):
            return False
        is_namespace = not obj.group and obj.kind == "Namespace"
        namespace = obj.metadata.name if is_namespace else obj.metadata.namespace
        return not namespace or namespace in self.namespaces

    def matches(self, obj: PartialObject, role: Role = Role.MAIN) -> bool:
        """Return whether the ring's objectSelector matches the object.

        The selector applies to main objects only; a controlled object is in scope if its
        controller is.  An object that is being deleted stays in scope, because if its shard is
        lost, another shard has to remove its finalizer.
        """
        selector = self.ring.spec.object_selector
        if selector is None or role is Role.CONTROLLED:
            return True
        is_ending = obj.metadata.deletion_timestamp is not None
        return selector.matches(obj.metadata.labels or {}) or (
            is_ending and self.owner_of(obj) is not None
        )

    def _controller_kind(self, obj: PartialObject) -> MainKind | None:
        owner = obj.metadata.controller
        return None if owner is None else self.kinds.get((owner.group, owner.kind))


def version_of(obj: PartialObject) -> int:
    """Return the object's resourceVersion, 0 if it has none or an aggregated API uses text."""
    return number_of(obj.metadata.resource_version)


def _hashed(key: str, kind: MainKind | None) -> str:
    """Return the key by which an object is hashed, given its own key."""
    by_namespace = kind is not None and kind.hash_key is HashKey.NAMESPACE
    return namespace_key(key) if by_namespace else key
