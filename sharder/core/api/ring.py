"""The ControllerRing: which resources are sharded, over which namespaces, and how."""

from enum import StrEnum

import msgspec

from sharder.core.api.meta import LabelSelector, ObjectMeta, PartialObject
from sharder.core.names import GroupResource, RingName


class HashKey(StrEnum):
    """What the keys of a main resource's objects contain."""

    OBJECT = "Object"
    """Each object has its own key."""
    NAMESPACE = "Namespace"
    """All objects of a namespace have the same key, so they share a shard."""


class StrategyName(StrEnum):
    """How a shard is chosen for an object (docs/placement.md)."""

    CONSISTENT_HASH = "ConsistentHash"
    RENDEZVOUS = "Rendezvous"
    BOUNDED_LOAD = "BoundedLoad"
    SPREAD = "Spread"
    LEAST_LOADED = "LeastLoaded"
    CUSTOM = "Custom"


class AntiAffinity(StrEnum):
    """Whether members of a group are allowed to share a shard."""

    PREFERRED = "Preferred"
    """They share a shard only if there is no other shard."""
    REQUIRED = "Required"
    """They never share a shard."""


class RebalanceStrategy(StrEnum):
    """How the load of the shards is measured (docs/rebalancing.md)."""

    NONE = "None"
    """Objects are not moved for balance."""
    RESOURCE_BALANCE = "ResourceBalance"
    """By the fragmentation of each shard: how unevenly its resources are used."""
    EVEN_LOAD = "EvenLoad"
    """By how full the shards are, compared with each other."""


class ControlledResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource whose objects belong to the shard of the object that controls them."""

    resource: str
    group: str = ""

    @property
    def id(self) -> GroupResource:
        """Group and resource."""
        return GroupResource(self.group, self.resource)


class RingResource(ControlledResource, frozen=True, kw_only=True, rename="camel"):
    """A main resource of a ring, with the resources that its objects control."""

    controlled_resources: tuple[ControlledResource, ...] = ()
    hash_key: HashKey = HashKey.OBJECT


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.Condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""


class GroupBy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which objects of a namespace form a group."""

    labels: tuple[str, ...] = ()
    """Keys of labels; the members of a group have the same of these labels, with equal values."""
    selectors: tuple[LabelSelector, ...] = ()
    """Selectors, each of which matches either all members of a group or none."""
    owner: bool = False
    """Whether the members of a group must have the same controller."""


class PlacementSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a shard is chosen for each object of the main resources."""

    strategy: StrategyName = StrategyName.CONSISTENT_HASH
    custom: str = ""
    """Custom: the name of an entry point in the group `sharder.placement`."""
    per_shard_capacity: int | None = None
    """Hard ceiling of objects on one shard; None: only the capacity that a shard declares."""
    use_topology_labels: bool = False
    """Whether the topology.kubernetes.io labels of an object are its wanted region and zone."""
    group_by: GroupBy = GroupBy()
    anti_affinity: AntiAffinity = AntiAffinity.PREFERRED
    min_zones: int = 1
    """The number of zones that must be available to a group of two or more objects."""
    require_zone: bool = False
    require_pool: bool = False
    pool_capacity: int | None = None
    """Hard ceiling of objects in one pool."""


class RebalanceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When objects move to balance the load of the shards."""

    strategy: RebalanceStrategy = RebalanceStrategy.NONE
    resources: tuple[str, ...] = ("cpu", "memory")
    """The resources, of the shards' capacities and the objects' loads, that are compared."""
    threshold: str = "Auto"
    """ResourceBalance: the fragmentation above which objects leave a shard, or `Auto`."""
    min_gain: str = "0.02"
    """ResourceBalance: the minimum gain of all moves from one shard in a run.

    EvenLoad: the minimum difference between the rates of two shards for a move between them.
    """
    interval: str = "5m"
    """Time between two runs."""
    max_moves_per_interval: int = 50
    dry_run: bool = False
    """Whether moves are planned and reported, but not carried out."""


class MovementSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many objects can move at a time; objects of a shard that is gone always move."""

    paused: bool = False
    """Whether movement is paused: no object is drained."""
    max_concurrent_drains: int = 0
    """Per shard; 0: no limit."""
    max_moves_per_minute: int = 0
    """Per ring; 0: no limit."""
    drain_timeout: str = "5m"
    """A drain that takes longer is reported as overdue; 0: never."""


class RingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The desired state of the ring."""

    resources: tuple[RingResource, ...] = ()
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    """Only matching objects are sharded; None matches all."""
    shard_namespaces: tuple[str, ...] = ()
    """The namespaces in which a Lease can make a shard; empty: all."""
    placement: PlacementSpec = PlacementSpec()
    rebalance: RebalanceSpec = RebalanceSpec()
    movement: MovementSpec = MovementSpec()


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A shard of the ring and its objects; unknown values are omitted."""

    name: str
    state: str
    """The state in its Lease's label: ready, expired and so on."""
    objects: int | None = None
    """Objects of main resources, draining ones included."""
    load: dict[str, str] = {}
    """Kubernetes quantities by resource, as in the capacity."""
    capacity: dict[str, str] = {}
    zone: str = ""
    pool: str = ""
    cordoned: bool = False
    evacuating: bool = False


class LastResync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last complete pass of the leader over all objects of the ring."""

    time: str
    """When the pass ended; RFC 3339 to the second."""
    duration_seconds: float
    assigned: int
    moved: int
    drained: int
    conflicts: int
    """Writes that failed because another client had updated the object."""


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that would move for balance."""

    object: str
    """`group/Kind/namespace/name`, as in `sharder plan`."""
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class LastRebalance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last rebalancing run whose result differs from that of the run before."""

    time: str
    """RFC 3339 to the second."""
    dry_run: bool
    moves: int
    """Moves that were started, or that a dry run would start."""
    why: str
    """The result, in one sentence."""
    planned: tuple[PlannedMove, ...] = ()
    """The first moves of a dry run, at most 20."""


class RingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status that the sharder reports; None is written as null, which deletes the field.

    `shards` is the number of Leases, `available_shards` that of shards that own objects.
    """

    observed_generation: int = 0
    shards: int = 0
    available_shards: int = 0
    objects: int | None = None
    """The number of main objects in scope; the next four fields count some of these."""
    assigned: int | None = None
    unassigned: int | None = None
    unowned: int | None = None
    """Objects without an available owner."""
    draining: int | None = None
    uncontrolled: int | None = None
    """Objects of controlled resources that have no controller."""
    oldest_unassigned_since: str | None = None
    """The time since which at least one object was always unassigned; RFC 3339 to the second."""
    oldest_drain_since: str | None = None
    shard_statuses: tuple[ShardStatus, ...] = ()
    """At most 200, the fullest first."""
    shard_statuses_truncated: bool = False
    last_resync: LastResync | None = None
    last_rebalance: LastRebalance | None = None
    conditions: tuple[Condition, ...] = ()


class ControllerRing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ring of shards and the resources it distributes; cluster-scoped."""

    metadata: ObjectMeta
    spec: RingSpec = RingSpec()
    status: RingStatus = RingStatus()

    @property
    def name(self) -> RingName:
        """The ring's name, which is part of its labels."""
        return RingName(self.metadata.name)


class UnreadableRing(ControllerRing, frozen=True, kw_only=True):
    """A ring that this version cannot decode, for example from a later version; it has no spec."""

    problem: str
    """Why it cannot be decoded."""


def unreadable_ring(obj: PartialObject, problem: str) -> UnreadableRing:
    """Return the ring of an object that cannot be decoded."""
    return UnreadableRing(metadata=obj.metadata, problem=problem)
