"""The MutatingWebhookConfiguration of a ring; pure (docs/protocol.md, "ControllerRing")."""

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
    excluded: frozenset[str]
    """Namespaces in which we are never called, whatever a ring selects."""
    sharders: frozenset[str]
    annotations: dict[str, str] = field(default_factory=dict)
    token: str = field(default="", repr=False)
    """In the path, where it tells the API server's calls from others'; empty: in none."""


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
        "webhooks": [_webhook(ring, registration, part) for part in parts_of(ring)],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one webhook of a ring is called for."""

    name: str
    selector: LabelSelector
    main: tuple[GroupResource, ...]
    controlled: tuple[GroupResource, ...]


def parts_of(ring: ControllerRing) -> tuple[Part, ...]:
    """Return one part for each webhook that the ring needs.

    An objectSelector selects main objects.  What they control rarely has their labels, and must
    be labelled with the shard that works on it.
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
        "reinvocationPolicy": "Never",
        "rules": [_rule(resource) for resource in sorted((*part.main, *part.controlled))],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def match_conditions(
    ring: ControllerRing, registration: Registration, part: Part
) -> dict[str, str]:
    """Return the CEL expressions, by name, that must all hold for the API server to call us.

    CEL knows the escapes of JSON, but not those of surrogates.
    """
    excluded = json.dumps(sorted(registration.excluded), ensure_ascii=False)
    conditions = {
        # A Namespace's own request is in the namespace that it is.
        "in-scope": f"!(has(request.namespace) && request.namespace in {excluded})",
        "concerns-owner": _concerns_owner(ring, registration.sharders, part.selector),
    }
    if part.controlled:
        conditions["has-controller"] = _has_controller(ring, part.controlled)
    return conditions


def _concerns_owner(
    ring: ControllerRing, sharders: frozenset[str], selector: LabelSelector
) -> str:
    """Match every create, and updates of which the webhook may have to undo something.

    That is if the owner label is missing, or if it or the drain label was changed by anyone but
    the sharder.  An ordinary update of an owned object costs no call.
    """
    owner, drain = json.dumps(owner_label(ring.name)), json.dumps(drain_label(ring.name))
    new_owner = f"object.metadata.?labels[{owner}].orValue('')"
    old_owner = f"oldObject.metadata.?labels[{owner}].orValue('')"
    new_drain = f"object.metadata.?labels[{drain}].hasValue()"
    old_drain = f"oldObject.metadata.?labels[{drain}].hasValue()"
    users = json.dumps(sorted(sharders), ensure_ascii=False)
    # Whoever comes into the scope of an objectSelector may bear the label of a shard that is gone.
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
    """Match what something controls; of resources that are only controlled the rest is no shard's.

    Such as most ConfigMaps of a cluster.  One that names an owner all the same loses it.
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
        # Labels change through the status subresource too.
        "resources": [resource.resource, f"{resource.resource}/status"],
        "scope": "*",
    }


def client_config(endpoint: Endpoint, path: str) -> Json:
    """Return how the API server calls what the webhook offers at `path`."""
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
