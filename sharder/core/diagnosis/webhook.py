"""Whether the API server calls the webhook of a ring.

The API server admits objects even if the webhook does not answer, and an object can lack an owner
for other reasons.  So a probe is a request with an owner label that no shard has.  The webhook
always replaces or removes that label, so if it comes back, the webhook was not called.
"""

from dataclasses import dataclass
from typing import Final

from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Finding, Unread, fail, ok, unknown, warn
from sharder.core.names import GroupResource, owner_label, webhook_configuration
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role

CONFIGURATION, WEBHOOK = "configuration", "webhook"

NO_SHARD: Final = "sharder-check"
"""The owner label of a probe."""

_KINDS: Final = {"configmaps": "ConfigMap", "secrets": "Secret"}
"""Resources of the core group whose objects can be created without content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The webhook configuration of a ring."""

    has_ca: bool
    """Whether every webhook has a caBundle."""
    trusts: bool | Unread
    """Whether every caBundle contains the authority that issued the serving certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a probe."""

    request: str
    """The request that was sent, in words."""
    owner: str
    """The owner label in the answer, empty if there is none."""


def probe_of(ring: ControllerRing) -> tuple[GroupResource, Json] | None:
    """Return an object of the ring that can be created in a dry run, and its resource.

    The result is None if no resource allows that, or if the objectSelector does not determine the
    labels of the object.
    """
    selector = ring.spec.object_selector
    labels = {} if selector is None else dict(selector.match_labels)
    if selector is not None and not selector.matches(labels):
        return None
    for resource, role in sorted(roles_of(ring).items()):
        if role is not Role.CONTROLLED and not resource.group and resource.resource in _KINDS:
            return resource, {
                "apiVersion": "v1",
                "kind": _KINDS[resource.resource],
                "metadata": {
                    "generateName": f"{NO_SHARD}-",
                    "labels": {**labels, owner_label(ring.name): NO_SHARD},
                },
            }
    return None


def relabelled(ring: ControllerRing) -> Json:
    """Return the patch that probes with an existing object, if none can be created."""
    return {"metadata": {"labels": {owner_label(ring.name): NO_SHARD}}}


def answer_of(ring: ControllerRing, request: str, obj: PartialObject) -> Answer:
    """Return the answer to a probe, given the object in the response."""
    return Answer(request=request, owner=obj.metadata.label(owner_label(ring.name)))


def configuration(ring: ControllerRing, found: Configuration | Unread | None) -> Finding:
    """Return whether the webhook configuration of the ring exists and has the right CA."""
    if isinstance(found, Unread):
        return unknown(CONFIGURATION, found, ring=ring.name)
    name = f"MutatingWebhookConfiguration {webhook_configuration(ring.name)}"
    if found is None:
        advice = (
            "the leader applies it within 30s: check that a replica leads, and the condition Ready"
        )
        return fail(CONFIGURATION, f"there is no {name}", advice, ring=ring.name)
    if isinstance(found.trusts, Unread):
        return unknown(CONFIGURATION, found.trusts, ring=ring.name)
    if found.trusts:
        message = f"{name} trusts the serving certificate"
        return ok(CONFIGURATION, message, ring=ring.name)
    if not found.has_ca:
        advice = "set webhook.config.clientConfig.caBundle, or let cert-manager inject it"
        return warn(CONFIGURATION, f"{name} has no caBundle", advice, ring=ring.name)
    message = f"the caBundle of {name} lacks the authority of the serving certificate"
    advice = "the leader corrects it within 30s: check whether another client writes it"
    return fail(CONFIGURATION, message, advice, ring=ring.name)


def webhook(ring: ControllerRing, found: Answer | Unread, *, available: int) -> Finding:
    """Return whether the API server reached the webhook; `available` is the number of shards."""
    if isinstance(found, Unread):
        return unknown(WEBHOOK, found, ring=ring.name)
    if found.owner == NO_SHARD:
        advice = (
            f'look for "failing open" in the log of the API server, and at the findings of '
            f"{CONFIGURATION} and certificates; the API server must reach port 9443 of the pods"
        )
        message = f"the API server got no answer from the webhook for {found.request}"
        return fail(WEBHOOK, message, advice, ring=ring.name)
    if found.owner:
        message = f"the webhook answered {found.request}: the owner is {found.owner}"
        return ok(WEBHOOK, message, ring=ring.name)
    message = f"the webhook answered {found.request}, but assigned no owner"
    if not available:
        return ok(WEBHOOK, f"{message}, because no shard is available", ring=ring.name)
    advice = (
        f"see whether shards have room: sharder shards {ring.name}; in the first seconds after "
        "its start the webhook leaves objects to the leader"
    )
    return warn(WEBHOOK, message, advice, ring=ring.name)
