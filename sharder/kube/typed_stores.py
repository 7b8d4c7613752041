"""The collections that the sharder and its shards use."""

from typing import Final

from sharder.core.api.cluster import Pod, Secret
from sharder.core.api.lease import Lease, read_lease
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing, unreadable_ring
from sharder.core.names import API_GROUP, API_VERSION, parse_resource
from sharder.kube.client import Client
from sharder.kube.store import KubeStore, Scope

GATHER_SECONDS: Final = 0.05
"""Renewals that come within it are read together: a hundred shards write fifty a second."""


def _served(name: str, kind: str, *, version: str = "v1", namespaced: bool = False) -> Resource:
    return Resource(id=parse_resource(name), version=version, kind=kind, namespaced=namespaced)


EVENTS: Final = _served("events", "Event", namespaced=True)
LEASES: Final = _served("leases.coordination.k8s.io", "Lease", namespaced=True)
RINGS: Final = _served(f"controllerrings.{API_GROUP}", "ControllerRing", version=API_VERSION)
NAMESPACES: Final = _served("namespaces", "Namespace")
PODS: Final = _served("pods", "Pod", namespaced=True)
SECRETS: Final = _served("secrets", "Secret", namespaced=True)
MUTATING: Final = _served(
    "mutatingwebhookconfigurations.admissionregistration.k8s.io", "MutatingWebhookConfiguration"
)
VALIDATING: Final = _served(
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration",
)


def leases(
    client: Client, *, namespace: str = "", labels: str = "", fields: str = ""
) -> KubeStore[Lease]:
    """Return the Leases of a namespace, or of all namespaces, that match the selectors."""
    return KubeStore(
        client,
        Lease,
        LEASES,
        Scope(namespace, labels, fields),
        pause=GATHER_SECONDS,
        decode=read_lease,
    )


def rings(client: Client) -> KubeStore[ControllerRing]:
    """Return the ControllerRings; `status()` has their status subresource.

    Lists and watches include unreadable rings: to skip one would look like its deletion.
    """
    return KubeStore(client, ControllerRing, RINGS, unreadable=unreadable_ring)


def secrets(client: Client, *, namespace: str, fields: str = "") -> KubeStore[Secret]:
    """Return the Secrets of a namespace that match the field selector."""
    return KubeStore(client, Secret, SECRETS, Scope(namespace, fields=fields))


def pods(client: Client, namespace: str) -> KubeStore[Pod]:
    """Return the pods of a namespace that have not ended."""
    live = "status.phase!=Failed,status.phase!=Succeeded"
    return KubeStore(client, Pod, PODS, Scope(namespace, fields=live))
