"""All that decisions about one ring depend on, as one immutable value.

A watch event replaces a ring's snapshot by one assignment; whoever holds the old one decides
consistently by it.  The admission path reads nothing else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.api.ring import ControllerRing, HashKey
from sharder.keys import main_key, namespace_key, owner_key
from sharder.membership import Members, Standing
from sharder.names import GroupResource, RingName, ShardName, drain_label, next_annotation
from sharder.names import owner_label as owner_label_of
from sharder.ring import ConsistentHash


class Role(Enum):
    """What the objects of a resource are to the ring."""

    MAIN = auto()
    """They are placed by their own key."""
    LEADING = auto()
    """The same, and other objects follow them: those move first."""
    CONTROLLED = auto()
    """They follow the object that controls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MainKind:
    """What is to be known of the kind of a main resource, to hash its objects and followers."""

    hash_key: HashKey
    namespaced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSnapshot:
    """One ring at one moment: its resources, its members and the hash ring built from them."""

    ring: ControllerRing
    roles: Mapping[GroupResource, Role]
    kinds: Mapping[tuple[str, str], MainKind]
    """The kinds of the main resources that the API server serves, by group and kind."""
    members: Members
    hashing: ConsistentHash
    namespaces: frozenset[str]
    """The namespaces that the ring selects."""
    owner_label: str
    drain_label: str
    next_annotation: str

    @property
    def name(self) -> RingName:
        """The ring's name."""
        return self.ring.name

    def wanted(self, key: str | None) -> ShardName | None:
        """Return the shard that the ring wants for a key; None without key or members."""
        return None if key is None else self.hashing.owner(key)

    def key_of(self, obj: PartialObject, role: Role) -> str | None:
        """Return what the object is hashed by, None for one that nothing controls."""
        if role is Role.CONTROLLED:
            owner = obj.metadata.controller
            kind = None if owner is None else self.kinds.get((owner.group, owner.kind))
            key = self.controller_key(obj)
        else:
            kind, key = self.kinds.get((obj.group, obj.kind)), main_key(obj)
        if key is None or kind is None or kind.hash_key is HashKey.OBJECT:
            return key
        return namespace_key(key)

    def controller_key(self, obj: PartialObject) -> str | None:
        """Return the `main_key` of the object that controls `obj`, None if nothing does.

        The owner is looked for in the object's own namespace, unless its kind has none.
        """
        owner = obj.metadata.controller
        if owner is None:
            return None
        kind = self.kinds.get((owner.group, owner.kind))
        namespaced = kind is None or kind.namespaced
        return owner_key(owner, obj.metadata.namespace if namespaced else "")

    def owner_of(self, obj: PartialObject) -> ShardName | None:
        """Return the shard that the object's label names, None if it has no owner."""
        value = obj.metadata.label(self.owner_label)
        return ShardName(value) if value else None

    def directed(self, obj: PartialObject) -> ShardName | None:
        """Return the shard that the object is directed to, None unless that may get it."""
        shard = ShardName(obj.metadata.annotation(self.next_annotation))
        return shard if self.members.standing_of(shard) is Standing.AVAILABLE else None

    def is_draining(self, obj: PartialObject) -> bool:
        """Tell whether the object's owner has been asked to let go."""
        return obj.metadata.has_label(self.drain_label)

    def selects(self, obj: PartialObject) -> bool:
        """Tell whether the ring looks after the object, by its own labels and its namespace.

        A Namespace is its own namespace; other cluster-scoped objects have none to judge by.
        """
        if not self.matches(obj):
            return False
        is_namespace = not obj.group and obj.kind == "Namespace"
        namespace = obj.metadata.name if is_namespace else obj.metadata.namespace
        return not namespace or namespace in self.namespaces

    def matches(self, obj: PartialObject) -> bool:
        """Tell whether the ring's objectSelector matches."""
        selector = self.ring.spec.object_selector
        return selector is None or selector.matches(obj.metadata.labels or {})

    def decides_like(self, other: "RingSnapshot") -> bool:
        """Tell whether both lead to the same steps for every object.

        The ring's status and labels and the health of its available shards do not matter.
        """
        return self.places_like(other) and self.namespaces == other.namespaces

    def places_like(self, other: "RingSnapshot") -> bool:
        """Tell whether both lead to the same steps for every object that both select."""
        return (
            self.ring.metadata.uid == other.ring.metadata.uid
            and self.ring.metadata.generation == other.ring.metadata.generation
            and self.members == other.members
            and self.kinds == other.kinds
        )


def build(
    ring: ControllerRing,
    *,
    members: Members,
    namespaces: frozenset[str],
    served: Iterable[Resource] = (),
    previous: RingSnapshot | None = None,
) -> RingSnapshot:
    """Return the ring's snapshot; the hash ring of `previous` is reused if it has the members.

    Of `served` only the ring's main resources count.  One that is missing there is hashed by
    object, and taken for namespaced.
    """
    available = tuple(sorted(members.available))
    hashing = previous.hashing if previous is not None else ConsistentHash(available)
    if hashing.members != available:
        hashing = ConsistentHash(available)
    return RingSnapshot(
        ring=ring,
        roles=roles_of(ring),
        kinds=_kinds_of(ring, served),
        members=members,
        hashing=hashing,
        namespaces=namespaces,
        owner_label=owner_label_of(ring.name),
        drain_label=drain_label(ring.name),
        next_annotation=next_annotation(ring.name),
    )


def roles_of(ring: ControllerRing) -> dict[GroupResource, Role]:
    """Return the role of each resource; one listed as main and as controlled counts as main.

    (The reference moves such objects back and forth for ever.)
    """
    controlled = {
        c.id: Role.CONTROLLED for r in ring.spec.resources for c in r.controlled_resources
    }
    main = {
        r.id: Role.LEADING if r.controlled_resources else Role.MAIN for r in ring.spec.resources
    }
    return controlled | main


def _kinds_of(ring: ControllerRing, served: Iterable[Resource]) -> dict[tuple[str, str], MainKind]:
    hash_keys = {resource.id: resource.hash_key for resource in ring.spec.resources}
    return {
        (resource.id.group, resource.kind): MainKind(
            hash_key=hash_keys[resource.id], namespaced=resource.namespaced
        )
        for resource in served
        if resource.id in hash_keys
    }
