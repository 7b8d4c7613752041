"""What all parts of one shard share."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from sharder.core.api.lease import Lease
from sharder.core.api.meta import ObjectMeta, Resource
from sharder.core.movement.patches import acknowledge
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.store import KubeStore
from sharder.metrics.collectors import Metrics
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.shard.cluster import Cluster
from sharder.shard.identity import Handled, Identity, Ownership
from sharder.shard.objects import OwnObject
from sharder.shard.settings import Settings

DRAIN_BACKOFF: Final = Backoff(base=0.2, cap=30.0)
"""Seconds; another shard waits, but each retry can be a write that calls every webhook."""


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

    async def acknowledge(self, resource: Resource, meta: ObjectMeta) -> bool:
        """Acknowledge the drain of an object; return whether it drains still.

        Then a webhook has restored both labels, perhaps without an event.
        """
        owner, drain = self.identity.owner_label, self.identity.drain_label
        patch = acknowledge(meta, owner_label=owner, drain_label=drain)
        written = await self.objects(resource).patch(meta.ref, patch)
        return self.identity.ownership_of(written.metadata) is Ownership.DRAINING

    @property
    def lease(self) -> ObjectRef:
        """The shard's Lease."""
        return ObjectRef(self.settings.namespace, self.settings.name)

    @property
    def leases(self) -> KubeStore[Lease]:
        """The Leases of its namespace."""
        return self.cluster.leases(self.settings.namespace)
