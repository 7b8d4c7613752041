"""The cluster as a shard uses it."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import msgspec

from sharder.core.api.cluster import Right
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects, discover
from sharder.kube.reviews import is_allowed
from sharder.kube.store import KubeStore, Scope
from sharder.kube.typed_stores import EVENTS, leases, rings
from sharder.runtime.clock import Clock
from sharder.runtime.events import Recorder
from sharder.shard.identity import Identity
from sharder.shard.objects import Decode, OwnObject, Whole, own, whole

OwnObjects: TypeAlias = KubeStore[OwnObject] | KubeStore[Whole]
"""The objects of this shard, to watch."""

Documents: TypeAlias = KubeStore[msgspec.Raw]
"""Whole objects of one resource, undecoded."""


class Cluster:
    """Leases, ring and rights; metadata to watch, and whole objects to read and write."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def write_while(self, left: Callable[[], float]) -> None:
        """Let the API server give up writes that are not stored after `left()` seconds."""
        self._client.left = left

    def leases(self, namespace: str) -> KubeStore[Lease]:
        """Return the Leases of a namespace."""
        return leases(self._client, namespace=namespace)

    async def find(self, resource: GroupResource) -> Resource:
        """Discover the resource; `NotFound` if the API server does not serve it."""
        return await discover(self._client, resource)

    async def ring(self, name: RingName) -> ControllerRing:
        """Return the ring; `NotFound` if there is none."""
        return await rings(self._client).get(ObjectRef("", name))

    async def may(self, right: Right) -> bool:
        """Return whether the shard's own user has the right."""
        return await is_allowed(self._client, right)

    def recorder(self, identity: Identity, clock: Clock) -> Recorder:
        """Return what records the Events of a shard."""
        ring, shard = identity.ring, identity.shard
        events = KubeObjects(self._client).of(EVENTS)
        return Recorder(events, clock=clock, component=ring, instance=shard)

    def objects(
        self, resource: Resource, labels: str = "", namespace: str = "", decode: Decode = own
    ) -> KubeStore[OwnObject]:
        """Return the metadata of the objects that match, of one namespace or of all."""
        scope = Scope(namespace, labels)
        return KubeStore(
            self._client, OwnObject, resource, scope, metadata_only=True, decode=decode
        )

    def whole(self, resource: Resource, labels: str) -> KubeStore[Whole]:
        """Return the whole objects that match the label selector, as `Whole`."""
        decode = partial(whole, resource=resource)
        return KubeStore(self._client, Whole, resource, Scope(labels=labels), decode=decode)

    def documents(self, resource: Resource) -> Documents:
        """Return the whole objects, undecoded."""
        return KubeStore(self._client, msgspec.Raw, resource)
