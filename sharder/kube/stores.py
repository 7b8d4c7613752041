"""The collections that the sharder and its shards work on, by name."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from sharder.api.lease import Lease
from sharder.api.meta import Json, PartialObject
from sharder.api.resource import Resource
from sharder.api.ring import ControllerRing
from sharder.api.secret import Secret
from sharder.api.webhook import WebhookConfiguration
from sharder.kube.client import APPLY_PATCH, Client
from sharder.kube.errors import understand
from sharder.kube.store import KubeStore
from sharder.names import API_GROUP, API_VERSION, FIELD_MANAGER, GroupResource, ObjectRef

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


def leases(client: Client, *, namespace: str = "", labels: str = "") -> KubeStore[Lease]:
    """Return the Leases of a namespace, or of all, that match the label selector."""
    return KubeStore(client, Lease, LEASES, namespace=namespace, labels=labels)


def rings(client: Client) -> KubeStore[ControllerRing]:
    """Return the ControllerRings; their `status()` is written apart."""
    return KubeStore(client, ControllerRing, RINGS)


def namespaces(client: Client) -> KubeStore[PartialObject]:
    """Return the Namespaces, of which only labels matter."""
    return KubeStore(client, PartialObject, NAMESPACES, metadata_only=True)


def secrets(client: Client, *, namespace: str) -> KubeStore[Secret]:
    """Return the Secrets of a namespace."""
    return KubeStore(client, Secret, SECRETS, namespace=namespace)


def webhook_configurations(client: Client) -> KubeStore[WebhookConfiguration]:
    """Return the cluster's MutatingWebhookConfigurations, with whom they trust."""
    return KubeStore(client, WebhookConfiguration, MUTATING)


class _Name(msgspec.Struct, frozen=True):
    name: str


class _Named(msgspec.Struct, frozen=True):
    metadata: _Name


class KubeWebhookConfigurations:
    """The cluster's webhook configurations of one kind, `MUTATING` or `VALIDATING`."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._store = KubeStore(client, PartialObject, resource, metadata_only=True)
        self._path = f"/apis/{resource.id.group}/{resource.version}/{resource.id.resource}/"

    async def apply(self, body: Json) -> PartialObject:
        """Apply `body` under the sharder's field manager, taking fields over from others."""
        path = self._path + msgspec.convert(body, _Named).metadata.name
        answer = await self._client.request(
            "PATCH",
            path,
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,  # JSON is YAML
        )
        return understand(answer, PartialObject, path)

    def stream(self, labels: str = "") -> AsyncIterator[PartialObject]:
        """Yield the configurations that match the label selector."""
        return self._store.stream(labels)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete exactly this configuration."""
        await self._store.delete(ref, uid=uid, resource_version=resource_version)


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _ReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _SelfSubjectReview(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


async def whoami(client: Client) -> str:
    """Return the name under which the API server knows us."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = await client.request(
        "POST",
        path,
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    return understand(answer, _SelfSubjectReview, path).status.user_info.username
