"""The collections that the sharder and its shards use."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from sharder.core.api.cluster import Secret, WebhookConfiguration
from sharder.core.api.lease import Lease, read_lease
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing, unreadable_ring
from sharder.core.names import API_GROUP, API_VERSION, GroupResource, ObjectRef
from sharder.kube.client import Client
from sharder.kube.store import KubeStore

GATHER_SECONDS: Final = 0.05
"""Renewals that come within it are read together: a hundred shards write fifty a second."""

LEASES: Final = Resource(
    id=GroupResource("coordination.k8s.io", "leases"), version="v1", kind="Lease", namespaced=True
)
RINGS: Final = Resource(
    id=GroupResource(API_GROUP, "controllerrings"),
    version=API_VERSION,
    kind="ControllerRing",
    namespaced=False,
)
NAMESPACES: Final = Resource(
    id=GroupResource("", "namespaces"), version="v1", kind="Namespace", namespaced=False
)
SECRETS: Final = Resource(
    id=GroupResource("", "secrets"), version="v1", kind="Secret", namespaced=True
)
MUTATING: Final = Resource(
    id=GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    version="v1",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING: Final = Resource(
    id=GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    version="v1",
    kind="ValidatingWebhookConfiguration",
    namespaced=False,
)


def leases(
    client: Client, *, namespace: str = "", labels: str = "", fields: str = ""
) -> KubeStore[Lease]:
    """Return the Leases of a namespace, or of all namespaces, that match the selectors."""
    return KubeStore(
        client,
        Lease,
        LEASES,
        namespace=namespace,
        labels=labels,
        fields=fields,
        pause=GATHER_SECONDS,
        decode=read_lease,
    )


def rings(client: Client) -> KubeStore[ControllerRing]:
    """Return the ControllerRings; `status()` has their status subresource."""
    return KubeStore(client, ControllerRing, RINGS)


def all_rings(client: Client) -> KubeStore[ControllerRing]:
    """Return the ControllerRings to watch, including unreadable rings.

    To skip an unreadable ring would look like its deletion.
    """
    return KubeStore(client, ControllerRing, RINGS, unreadable=unreadable_ring)


def namespaces(client: Client) -> KubeStore[PartialObject]:
    """Return the metadata of the Namespaces, for their labels."""
    return KubeStore(client, PartialObject, NAMESPACES, metadata_only=True)


def secrets(client: Client, *, namespace: str, fields: str = "") -> KubeStore[Secret]:
    """Return the Secrets of a namespace that match the field selector."""
    return KubeStore(client, Secret, SECRETS, namespace=namespace, fields=fields)


def webhook_configurations(client: Client) -> KubeStore[WebhookConfiguration]:
    """Return the cluster's MutatingWebhookConfigurations with their CA bundles."""
    return KubeStore(client, WebhookConfiguration, MUTATING)


class KubeWebhookConfigurations:
    """The cluster's webhook configurations of one kind, `MUTATING` or `VALIDATING`."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._store = KubeStore(client, PartialObject, resource, metadata_only=True)

    async def apply(self, body: Json) -> PartialObject:
        """Apply `body` under the sharder's field manager, taking over conflicting fields."""
        return await self._store.apply(msgspec.convert(body, PartialObject).metadata.ref, body)

    async def get(self, ref: ObjectRef) -> PartialObject:
        """Read the metadata of a configuration (a quorum read)."""
        return await self._store.get(ref)

    def stream(self, labels: str = "") -> AsyncIterator[PartialObject]:
        """Yield the configurations that match the label selector."""
        return self._store.stream(labels)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete the configuration; `Conflict` if it has another uid or resourceVersion."""
        await self._store.delete(ref, uid=uid, resource_version=resource_version)
