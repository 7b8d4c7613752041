"""The MutatingWebhookConfiguration of a ring; pure (docs/protocol.md, "ControllerRing")."""

import json
from dataclasses import dataclass, field

import msgspec

from sharder.api.meta import Json
from sharder.api.ring import ControllerRing
from sharder.api.selector import LabelSelector
from sharder.names import (
    API_GROUP,
    API_VERSION,
    APP_LABEL,
    RING_LABEL,
    WEBHOOK_NAME,
    GroupResource,
    drain_label,
    owner_label,
    webhook_configuration,
    webhook_path,
)
from sharder.snapshot import roles_of

TIMEOUT_SECONDS = 5
"""How long the API server waits for us before it goes on without, as in the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How the API server reaches the webhook: a URL, or else a Service; as in clientConfig."""

    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = ""
    service_port: int = 443
    ca_bundle: str = ""
    """Base64 PEM; empty where somebody else injects it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What all rings' webhook configurations have in common."""

    endpoint: Endpoint
    default_namespaces: LabelSelector
    sharders: frozenset[str]
    annotations: dict[str, str] = field(default_factory=dict)


def configuration_of(ring: ControllerRing, registration: Registration) -> Json:
    """Return the body to apply for `ring`.

    The objectSelector is always sent: the reference's would otherwise survive our apply.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": webhook_configuration(ring.name),
            "labels": {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: ring.name},
            "annotations": registration.annotations,
            "ownerReferences": [_owner(ring)],
        },
        "webhooks": [
            {
                "name": WEBHOOK_NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": _client_config(ring, registration.endpoint),
                "failurePolicy": "Ignore",
                "matchConditions": [
                    {
                        "name": "concerns-owner",
                        "expression": match_expression(ring, registration.sharders),
                    }
                ],
                "matchPolicy": "Equivalent",
                "namespaceSelector": msgspec.to_builtins(
                    ring.spec.namespace_selector or registration.default_namespaces
                ),
                "objectSelector": {},
                "reinvocationPolicy": "Never",
                "rules": [_rule(resource) for resource in sorted(roles_of(ring))],
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
            }
        ],
    }


def match_expression(ring: ControllerRing, sharders: frozenset[str]) -> str:
    """Return the CEL expression under which the API server calls us.

    On every create, and on an update only if the owner label is missing, or if it or the drain
    label was changed by anyone but the sharder.  An ordinary update of an owned object costs no
    call.
    """
    owner, drain = json.dumps(owner_label(ring.name)), json.dumps(drain_label(ring.name))
    new_owner = f"object.metadata.?labels[{owner}].orValue('')"
    old_owner = f"oldObject.metadata.?labels[{owner}].orValue('')"
    new_drain = f"object.metadata.?labels[{drain}].hasValue()"
    old_drain = f"oldObject.metadata.?labels[{drain}].hasValue()"
    # CEL knows the escapes of JSON, but not those of surrogates.
    users = json.dumps(sorted(sharders), ensure_ascii=False)
    return (
        f"request.operation == 'CREATE' || {new_owner} == '' || "
        f"(({new_owner} != {old_owner} || {new_drain} != {old_drain})"
        f" && !(request.userInfo.username in {users}))"
    )


def _owner(ring: ControllerRing) -> Json:
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": "ControllerRing",
        "name": ring.name,
        "uid": ring.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _rule(resource: GroupResource) -> Json:
    return {
        "apiGroups": [resource.group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        # Labels change through the status subresource too.
        "resources": [resource.resource, f"{resource.resource}/status"],
        "scope": "*",
    }


def _client_config(ring: ControllerRing, endpoint: Endpoint) -> Json:
    bundle: dict[str, Json] = {"caBundle": endpoint.ca_bundle} if endpoint.ca_bundle else {}
    path = webhook_path(ring.name)
    if endpoint.url:
        return {"url": endpoint.url.rstrip("/") + path, **bundle}
    service: Json = {
        "namespace": endpoint.service_namespace,
        "name": endpoint.service_name,
        "path": endpoint.service_path.rstrip("/") + path,
        "port": endpoint.service_port,
    }
    return {"service": service, **bundle}
