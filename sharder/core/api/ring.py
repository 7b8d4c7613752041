"""The ControllerRing: which resources are sharded, over which namespaces, and how."""

from enum import StrEnum

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.selector import LabelSelector
from sharder.core.names import GroupResource, RingName


class HashKey(StrEnum):
    """By what the objects of a main resource are hashed."""

    OBJECT = "Object"
    """Each by itself."""
    NAMESPACE = "Namespace"
    """All of a namespace alike, so that they share a shard."""


class StrategyName(StrEnum):
    """How a shard is chosen for an object (docs/placement.md)."""

    CONSISTENT_HASH = "ConsistentHash"
    RENDEZVOUS = "Rendezvous"
    BOUNDED_LOAD = "BoundedLoad"
    SPREAD = "Spread"
    LEAST_LOADED = "LeastLoaded"
    CUSTOM = "Custom"


class AntiAffinity(StrEnum):
    """Whether members of a group may share a shard."""

    PREFERRED = "Preferred"
    """Only where there is nothing else."""
    REQUIRED = "Required"
    """Never."""


class RebalanceStrategy(StrEnum):
    """What the load of the shards is measured by (docs/rebalancing.md)."""

    NONE = "None"
    """Objects are not moved for balance."""
    RESOURCE_BALANCE = "ResourceBalance"
    """How unevenly each shard's resources are used: its fragmentation."""
    EVEN_LOAD = "EvenLoad"
    """How full the shards are beside one another."""


class ControlledResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource whose objects belong to the shard of the object that controls them."""

    resource: str
    group: str = ""

    @property
    def id(self) -> GroupResource:
        """Group and resource."""
        return GroupResource(self.group, self.resource)


class RingResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A main resource of a ring, with what its objects control."""

    resource: str
    group: str = ""
    controlled_resources: tuple[ControlledResource, ...] = ()
    hash_key: HashKey = HashKey.OBJECT

    @property
    def id(self) -> GroupResource:
        """Group and resource."""
        return GroupResource(self.group, self.resource)


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """metav1.Condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""


class GroupBy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which objects of a namespace belong together."""

    labels: tuple[str, ...] = ()
    """Keys: the values must be equal, as far as an object has them."""
    selectors: tuple[LabelSelector, ...] = ()
    """Those that match an object must match the others as well."""
    owner: bool = False
    """The objects must have the same controller."""


class PlacementSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a shard is chosen for each object of the main resources."""

    strategy: StrategyName = StrategyName.CONSISTENT_HASH
    custom: str = ""
    """Custom: name of an entry point of the group `sharder.placement`."""
    per_shard_capacity: int | None = None
    """Hard ceiling of objects on one shard; None: only what the shard declares."""
    use_topology_labels: bool = False
    """Whether topology.kubernetes.io labels of objects say where they belong."""
    group_by: GroupBy = GroupBy()
    anti_affinity: AntiAffinity = AntiAffinity.PREFERRED
    min_zones: int = 1
    """Zones that a group of two or more must be able to use."""
    require_zone: bool = False
    require_pool: bool = False
    pool_capacity: int | None = None
    """Hard ceiling of objects in one pool."""


class RebalanceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When objects move because the load of the shards has changed."""

    strategy: RebalanceStrategy = RebalanceStrategy.NONE
    resources: tuple[str, ...] = ("cpu", "memory")
    """Of the shards' capacities and the objects' loads."""
    threshold: str = "Auto"
    """ResourceBalance: the fragmentation above which a shard gives objects up, or `Auto`."""
    min_gain: str = "0.02"
    """ResourceBalance: what the moves that leave one shard at one look have to gain it together.

    EvenLoad: by how much the rates of two shards have to differ for a move between them.
    """
    interval: str = "5m"
    """Between two looks."""
    max_moves_per_interval: int = 50
    dry_run: bool = False
    """Whether moves are planned and told, but not carried out."""


class MovementSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much may move at a time.  What has no working owner is rescued in any case."""

    paused: bool = False
    """No shard is asked to let go of anything."""
    max_concurrent_drains: int = 0
    """Of one shard; 0: no limit."""
    max_moves_per_minute: int = 0
    """Of the ring; 0: no limit."""
    drain_timeout: str = "0s"
    """After which a drain is reported as overdue; 0: never."""


class RingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the user asked for."""

    resources: tuple[RingResource, ...] = ()
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    """Only matching objects are sharded; None selects all."""
    shard_namespaces: tuple[str, ...] = ()
    """Where Leases of shards may live; none given: anywhere."""
    placement: PlacementSpec = PlacementSpec()
    rebalance: RebalanceSpec = RebalanceSpec()
    movement: MovementSpec = MovementSpec()


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A shard of the ring and what it holds; what is not known or not said is not written."""

    name: str
    state: str
    """As on its Lease: ready, expired and so on."""
    objects: int | None = None
    """Of the main resources, those that it has been asked to let go included."""
    load: dict[str, str] = {}
    """Kubernetes quantities by resource, likewise the capacity."""
    capacity: dict[str, str] = {}
    zone: str = ""
    pool: str = ""
    cordoned: bool = False
    evacuating: bool = False


class LastResync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last time the leader has gone through all objects of the ring."""

    time: str
    """When it ended; RFC 3339 to the second."""
    duration_seconds: float
    assigned: int
    moved: int
    drained: int
    conflicts: int
    """Writes that came too late, as somebody else had written the object."""


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that would move for balance."""

    object: str
    """As in `sharder plan`: group/Kind/namespace/name."""
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class LastRebalance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last look at the balance of the ring that came to another result than the one before."""

    time: str
    """RFC 3339 to the second."""
    dry_run: bool
    moves: int
    """That were begun, or would be."""
    why: str
    """What came of it, in one sentence."""
    planned: tuple[PlannedMove, ...] = ()
    """In a dry run: what would move first, at most 20."""


class RingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the sharder reports; `shards` counts Leases, `available_shards` those that may own.

    None is written as null, which deletes the field.
    """

    observed_generation: int = 0
    shards: int = 0
    available_shards: int = 0
    objects: int | None = None
    """Of the main resources, in scope; likewise the next three."""
    assigned: int | None = None
    unassigned: int | None = None
    draining: int | None = None
    oldest_unassigned_since: str | None = None
    """RFC 3339 to the second; since then there has always been one without owner."""
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
    """A ring that this version cannot decode, such as one of a later version; no spec is known."""

    problem: str
    """What cannot be decoded."""


def unreadable_ring(obj: PartialObject, problem: str) -> UnreadableRing:
    """Return what is known of a ring that cannot be decoded."""
    return UnreadableRing(metadata=obj.metadata, problem=problem)
