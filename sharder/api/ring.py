"""The ControllerRing: which resources are sharded, over which namespaces."""

from enum import StrEnum

import msgspec

from sharder.api.meta import ObjectMeta
from sharder.api.selector import LabelSelector
from sharder.names import GroupResource, RingName


class HashKey(StrEnum):
    """By what the objects of a main resource are hashed."""

    OBJECT = "Object"
    """Each by itself."""
    NAMESPACE = "Namespace"
    """All of a namespace alike, so that they share a shard."""


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


class RingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the user asked for."""

    resources: tuple[RingResource, ...] = ()
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    """Only matching objects are sharded; None selects all."""
    shard_namespaces: tuple[str, ...] = ()
    """Where Leases of shards may live; none given: anywhere."""


class RingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the sharder reports; `shards` counts Leases, `available_shards` those that may own."""

    observed_generation: int = 0
    shards: int = 0
    available_shards: int = 0
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
