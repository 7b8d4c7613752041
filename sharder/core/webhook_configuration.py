"""The webhook configurations (docs/protocol.md, "The webhook configuration")."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from sharder.core.api.meta import Json, LabelSelector
from sharder.core.api.ring import ControllerRing
from sharder.core.names import (
    API_GROUP,
    API_VERSION,
    APP_LABEL,
    RING_LABEL,
    VALIDATION_NAME,
    VALIDATION_PATH,
    webhook_configuration,
    webhook_path,
)
from sharder.core.webhook_selection import Webhook, in_scope, webhooks_of

TIMEOUT_SECONDS = 5
"""How long the API server waits before it continues without the webhook, as in the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How the API server reaches the webhook: a URL or a Service, as in clientConfig."""

    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = ""
    service_port: int = 443
    ca_bundle: str = ""
    """Base64 PEM; empty if another client injects the bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The common parts of all rings' webhook configurations."""

    endpoint: Endpoint
    default_namespaces: LabelSelector
    excluded: frozenset[str]
    """Namespaces for which the webhook is never called, even if a ring selects them."""
    sharders: frozenset[str]
    annotations: dict[str, str] = field(default_factory=dict)
    token: str = field(default="", repr=False)
    """Part of the path, so that the webhook recognizes the API server; empty: no token."""


def configuration_of(
    ring: ControllerRing, registration: Registration, shard_namespaces: Iterable[str]
) -> Json:
    """Return the body to apply for `ring`, whose shards' Leases are in `shard_namespaces`.

    An objectSelector is always sent; without it, that of the reference would remain.
    """
    webhooks = webhooks_of(ring, sharders=registration.sharders, shard_namespaces=shard_namespaces)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": webhook_configuration(ring.name),
            "labels": {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: ring.name},
            "annotations": registration.annotations,
            "ownerReferences": [_owner(ring)],
        },
        "webhooks": [_webhook(ring, registration, each) for each in webhooks if each.rules],
    }


def validation_of(registration: Registration) -> Json:
    """Return the ValidatingWebhookConfiguration to apply; one serves all rings.

    It does not have the ring label, so that lists of the rings' configurations do not include it.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": VALIDATION_NAME,
            "labels": {APP_LABEL[0]: APP_LABEL[1]},
            "annotations": registration.annotations,
        },
        "webhooks": [
            {
                "name": VALIDATION_NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": client_config(registration.endpoint, VALIDATION_PATH),
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "rules": [
                    {
                        "apiGroups": [API_GROUP],
                        "apiVersions": [API_VERSION],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["controllerrings"],
                        "scope": "Cluster",
                    }
                ],
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
            }
        ],
    }


def _webhook(ring: ControllerRing, registration: Registration, webhook: Webhook) -> Json:
    namespaces = in_scope(ring, registration.default_namespaces, registration.excluded)
    return {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(
            registration.endpoint, webhook_path(ring.name, registration.token)
        ),
        "failurePolicy": "Ignore",
        "matchConditions": [
            {"name": name, "expression": expression}
            for name, expression in webhook.conditions.items()
        ],
        "matchPolicy": "Equivalent",
        "namespaceSelector": msgspec.to_builtins(namespaces),
        "objectSelector": msgspec.to_builtins(webhook.objects),
        # A later webhook can add labels that exclude the shard, such as a pool.
        "reinvocationPolicy": "IfNeeded",
        "rules": list(webhook.rules),
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def _owner(ring: ControllerRing) -> Json:
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": "ControllerRing",
        "name": ring.name,
        "uid": ring.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def client_config(endpoint: Endpoint, path: str) -> Json:
    """Return how the API server calls the webhook at `path`."""
    bundle: dict[str, Json] = {"caBundle": endpoint.ca_bundle} if endpoint.ca_bundle else {}
    if endpoint.url:
        return {"url": endpoint.url.rstrip("/") + path, **bundle}
    service: Json = {
        "namespace": endpoint.service_namespace,
        "name": endpoint.service_name,
        "path": endpoint.service_path.rstrip("/") + path,
        "port": endpoint.service_port,
    }
    return {"service": service, **bundle}
