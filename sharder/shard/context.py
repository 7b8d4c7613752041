"""What all parts of one shard share."""

import asyncio
from dataclasses import dataclass, field

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.store import KubeStore
from sharder.metrics.collectors import Metrics
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.shard.cluster import Cluster
from sharder.shard.identity import Handled, Identity
from sharder.shard.objects import OwnObject
from sharder.shard.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """What all parts of one shard share."""

    cluster: Cluster
    identity: Identity
    settings: Settings
    handled: Handled
    stop: asyncio.Event
    """When it is set, the shard ends cleanly."""
    metrics: Metrics
    clock: Clock
    rng: Rng
    found: dict[GroupResource, Resource] = field(default_factory=dict)
    """The shard's resources as they are served; empty before they are discovered."""

    def objects(self, resource: Resource) -> KubeStore[OwnObject]:
        """Return the metadata of the shard's objects, to watch and to release them."""
        return self.cluster.objects(resource, self.identity.selector)

    @property
    def lease(self) -> ObjectRef:
        """The shard's Lease."""
        return ObjectRef(self.settings.namespace, self.settings.name)

    @property
    def leases(self) -> KubeStore[Lease]:
        """The Leases of its namespace."""
        return self.cluster.leases(self.settings.namespace)
