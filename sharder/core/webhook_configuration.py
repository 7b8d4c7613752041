"""The MutatingWebhookConfiguration of a ring (docs/protocol.md, "ControllerRing")."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import LabelSelector
from sharder.core.names import (
    API_GROUP,
    API_VERSION,
    APP_LABEL,
    CONTROLLED_WEBHOOK_NAME,
    RING_LABEL,
    WEBHOOK_NAME,
    GroupResource,
    drain_label,
    owner_label,
    webhook_configuration,
    webhook_path,
)
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role

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


def configuration_of(ring: ControllerRing, registration: Registration) -> Json:
    """Return the body to apply for `ring`.

    The objectSelector is always sent; without it, that of the reference would remain.
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
        "webhooks": [_webhook(ring, registration, part) for part in parts_of(ring)],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The resources and objects for which one webhook of a ring is called."""

    name: str
    selector: LabelSelector
    main: tuple[GroupResource, ...]
    controlled: tuple[GroupResource, ...]


def parts_of(ring: ControllerRing) -> tuple[Part, ...]:
    """Return one part for each webhook that the ring needs.

    An objectSelector selects main objects.  Their controlled objects rarely have the same labels,
    but also need the owner label.
    """
    roles, selector = roles_of(ring), ring.spec.object_selector or LabelSelector()
    controlled = tuple(of for of in sorted(roles) if roles[of] is Role.CONTROLLED)
    main = tuple(of for of in sorted(roles) if roles[of] is not Role.CONTROLLED)
    if selector == LabelSelector() or not controlled:
        return (Part(name=WEBHOOK_NAME, selector=selector, main=main, controlled=controlled),)
    everything = LabelSelector()
    return (
        Part(name=WEBHOOK_NAME, selector=selector, main=main, controlled=()),
        Part(name=CONTROLLED_WEBHOOK_NAME, selector=everything, main=(), controlled=controlled),
    )


def _webhook(ring: ControllerRing, registration: Registration, part: Part) -> Json:
    conditions = match_conditions(ring, registration, part)
    namespaces = ring.spec.namespace_selector or registration.default_namespaces
    return {
        "name": part.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(
            registration.endpoint, webhook_path(ring.name, registration.token)
        ),
        "failurePolicy": "Ignore",
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in conditions.items()
        ],
        "matchPolicy": "Equivalent",
        "namespaceSelector": msgspec.to_builtins(namespaces),
        "objectSelector": msgspec.to_builtins(part.selector),
        # A later webhook can add labels that exclude the shard, such as a pool.
        "reinvocationPolicy": "IfNeeded",
        "rules": [_rule(resource) for resource in sorted((*part.main, *part.controlled))],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def match_conditions(
    ring: ControllerRing, registration: Registration, part: Part
) -> dict[str, str]:
    """Return CEL expressions by name; the API server calls the webhook only if all are true.

    CEL has the same escapes as JSON, except those for surrogates.
    """
    excluded = json.dumps(sorted(registration.excluded), ensure_ascii=False)
    conditions = {
        # A request for a Namespace object has that namespace as its namespace.
        "in-scope": f"!(has(request.namespace) && request.namespace in {excluded})",
        "concerns-owner": _concerns_owner(ring, registration.sharders, part.selector),
    }
    if part.controlled:
        conditions["has-controller"] = _has_controller(ring, part.controlled)
    return conditions


def _concerns_owner(
    ring: ControllerRing, sharders: frozenset[str], selector: LabelSelector
) -> str:
    """Match every create, and updates that the webhook might have to change.

    Such an update has no owner label, or a client other than the sharder changes the owner label
    or the drain label.  The value of the drain label counts too, because it distinguishes a drain
    from a recall.  An ordinary update of an owned object does not call the webhook.
    """
    owner, drain = json.dumps(owner_label(ring.name)), json.dumps(drain_label(ring.name))
    new_owner = f"object.metadata.?labels[{owner}].orValue('')"
    old_owner = f"oldObject.metadata.?labels[{owner}].orValue('')"
    new_drain = f"object.metadata.?labels[{drain}]"
    old_drain = f"oldObject.metadata.?labels[{drain}]"
    users = json.dumps(sorted(sharders), ensure_ascii=False)
    # An object that enters the scope of an objectSelector can have an owner that is gone.
    enters = (
        "object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || "
        if selector != LabelSelector()
        else ""
    )
    return (
        f"request.operation == 'CREATE' || {new_owner} == '' || {enters}"
        f"(({new_owner} != {old_owner} || {new_drain} != {old_drain})"
        f" && !(request.userInfo.username in {users}))"
    )


def _has_controller(ring: ControllerRing, controlled: Iterable[GroupResource]) -> str:
    """Match controlled objects, and objects of controlled resources with an owner label.

    Other objects of controlled resources, such as most ConfigMaps of a cluster, do not need it.
    """
    owner = json.dumps(owner_label(ring.name))
    names = json.dumps([str(resource) for resource in controlled])
    resource = (
        "(request.resource.group == '' ? request.resource.resource"
        " : request.resource.resource + '.' + request.resource.group)"
    )
    return (
        f"!({resource} in {names}) || object.metadata.?ownerReferences.orValue([])"
        ".exists(reference, reference.?controller.orValue(false))"
        f" || object.metadata.?labels[{owner}].orValue('') != ''"
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
        # Labels can also be changed through the status subresource.
        "resources": [resource.resource, f"{resource.resource}/status"],
        "scope": "*",
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
