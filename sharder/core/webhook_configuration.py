"""The webhook configurations (docs/protocol.md, "The webhook configuration")."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from sharder.core.api.meta import Json, LabelSelector
from sharder.core.api.ring import ControllerRing
from sharder.core.names import (
    API_GROUP,
    API_VERSION,
    APP_LABEL,
    RING_LABEL,
    SYSTEM_NAMESPACE,
    VALIDATION_NAME,
    VALIDATION_PATH,
    webhook_configuration,
    webhook_path,
)
from sharder.core.webhook_selection import Webhook, in_scope, webhooks_of

TIMEOUT_SECONDS = 5
"""How long the API server waits before it continues without the webhook, as in the reference."""


class ServiceReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Service in front of the webhook server."""

    namespace: str = SYSTEM_NAMESPACE
    """Default `sharding-system`."""
    name: str = "sharder"
    """Default `sharder`."""
    path: str = ""
    """Prefix of the ring's own path; default none."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 443
    """Default 443."""


class WebhookClientConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the API server reaches the webhook: by `service`, or by `url` alone."""

    service: ServiceReference = ServiceReference()
    url: str = ""
    """https URL for an API server that cannot reach Services; the ring's path is appended."""
    ca_bundle: str = ""
    """PEM certificates in base64; default: the sharder's own CA in mode `SelfManaged`."""


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that the sharder writes into the MutatingWebhookConfigurations."""

    annotations: dict[str, str] = {}
    """Annotations of every webhook configuration; default none."""
    client_config: WebhookClientConfig = WebhookClientConfig()
    namespace_selector: LabelSelector = LabelSelector()
    """For rings without a selector; default all namespaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The common parts of all rings' webhook configurations."""

    config: WebhookConfig
    """With the caBundle to write; empty if another client injects the bundle."""
    excluded: frozenset[str]
    """Namespaces for which the webhook is never called, even if a ring selects them."""
    sharders: frozenset[str]
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
            "annotations": registration.config.annotations,
            "ownerReferences": [_owner(ring)],
        },
        "webhooks": [_mutating(ring, registration, each) for each in webhooks if each.rules],
    }


def validation_of(registration: Registration) -> Json:
    """Return the ValidatingWebhookConfiguration to apply; one serves all rings.

    It does not have the ring label, so that lists of the rings' configurations do not include it.
    """
    rule: Json = {
        "apiGroups": [API_GROUP],
        "apiVersions": [API_VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["controllerrings"],
        "scope": "Cluster",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": VALIDATION_NAME,
            "labels": {APP_LABEL[0]: APP_LABEL[1]},
            "annotations": registration.config.annotations,
        },
        "webhooks": [_webhook(VALIDATION_NAME, VALIDATION_PATH, [rule], registration)],
    }


def _mutating(ring: ControllerRing, registration: Registration, webhook: Webhook) -> Json:
    namespaces = in_scope(ring, registration.config.namespace_selector, registration.excluded)
    path = webhook_path(ring.name, registration.token)
    return {
        **_webhook(webhook.name, path, webhook.rules, registration),
        "matchConditions": [
            {"name": name, "expression": expression}
            for name, expression in webhook.conditions.items()
        ],
        "namespaceSelector": msgspec.to_builtins(namespaces),
        "objectSelector": msgspec.to_builtins(webhook.objects),
        # A later webhook can add labels that exclude the shard, such as a pool.
        "reinvocationPolicy": "IfNeeded",
    }


def _webhook(
    name: str, path: str, rules: Iterable[Json], registration: Registration
) -> dict[str, Json]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(registration.config.client_config, path),
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "rules": list(rules),
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


def client_config(client: WebhookClientConfig, path: str) -> Json:
    """Return how the API server calls the webhook at `path`."""
    bundle: dict[str, Json] = {"caBundle": client.ca_bundle} if client.ca_bundle else {}
    if client.url:
        return {"url": client.url.rstrip("/") + path, **bundle}
    service: dict[str, Json] = msgspec.to_builtins(client.service)
    return {"service": {**service, "path": client.service.path.rstrip("/") + path}, **bundle}
