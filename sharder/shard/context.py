"""The dependencies that all parts of one shard share."""

from collections.abc import Mapping
from dataclasses import dataclass

from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.metrics.collectors import Metrics
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.lease_record import Leases
from sharder.shard.cluster import Cluster
from sharder.shard.identity import Identity
from sharder.shard.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """The dependencies that all parts of one shard share."""

    cluster: Cluster
    identity: Identity
    settings: Settings
    found: Mapping[GroupResource, Resource]
    """The shard's resources as they are served."""
    metrics: Metrics
    clock: Clock
    rng: Rng

    @property
    def lease(self) -> ObjectRef:
        """The shard's Lease."""
        return ObjectRef(self.settings.namespace, self.settings.name)

    @property
    def leases(self) -> Leases:
        """The Leases of its namespace."""
        return self.cluster.leases(self.settings.namespace)
