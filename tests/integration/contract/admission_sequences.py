"""Sequences about webhooks, policies and the fence, which both servers answer equally."""

import asyncio
from typing import Final

import msgspec

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.fence import fence_of
from sharder.core.names import RING_LABEL, ObjectRef, RingName, drain_label, owner_label
from sharder.sdk.testing.requests import Client as User
from sharder.sdk.testing.storage import Tree
from tests.integration.contract.sequences import ONE_MAP, ONE_SITE, Sequence, a_map, a_site, labels
from tests.support.answers import LEASES, MAPS, SITES, Play

CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
HERE: Final[Tree] = {"matchLabels": {"kubernetes.io/metadata.name": "NS"}}
ALL_WRITES: Final[list[Json]] = ["CREATE", "UPDATE"]
PROBE: Final = a_map("probe", labels={"probe": "yes"})


def hook(name: str, **fields: Json) -> Tree:
    """Return the webhook at a path; it is called for ConfigMaps of this play alone."""
    rule: Json = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "resources": ["configmaps"],
        "operations": ALL_WRITES,
    }
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"https://hooks/{name}", "caBundle": "CA"},
        "rules": [rule],
        "namespaceSelector": HERE,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        **fields,
    }


async def configure(play: Play, *webhooks: Tree, name: str = "a") -> None:
    """Register webhooks, and wait until the server calls the last one of them."""
    marker = f"seen-{name}"
    webhook: Json = hook(marker, objectSelector={"matchLabels": {"probe": "yes"}})
    body: Tree = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"NS-{name}"},
        "webhooks": [*webhooks, webhook],
    }
    await play.quietly(CONFIGURATIONS, body)
    await play.until(
        MAPS, PROBE, lambda answer: marker in str(answer) or answer["kind"] == "Status"
    )


def not_the_probe(**fields: Json) -> Tree:
    """Return the fields of a webhook that is not called for the probe."""
    expression: Json = {"key": "probe", "operator": "DoesNotExist"}
    return {"objectSelector": {"matchExpressions": [expression]}, **fields}


async def webhooks_in_order(play: Play) -> None:
    await configure(play, hook("second", **not_the_probe()), name="b")
    await configure(play, hook("first", **not_the_probe()), name="a")
    await play.create(MAPS, a_map())
    await play.patch(ONE_MAP, {"data": {"a": "2"}})
    await play.patch(ONE_MAP, labels(first=None))
    await play.replace(ONE_MAP, a_map())
    await play.create(MAPS, {"metadata": {"generateName": "many-"}})
    await play.create(SITES, a_site())
    await play.delete(ONE_MAP)
    play.note_calls()


async def webhooks_again(play: Play) -> None:
    again = not_the_probe(reinvocationPolicy="IfNeeded")
    await configure(
        play,
        hook("first", **again),
        hook("looks", **not_the_probe()),
        hook("second", **again),
        hook("third", **not_the_probe()),
    )
    await play.create(MAPS, a_map())
    await play.patch(ONE_MAP, {"data": {"a": "2"}})
    await play.patch(ONE_MAP, labels(first=None))
    await play.patch(ONE_MAP, labels(third=None))
    play.note_calls()


async def webhooks_that_fail(play: Play) -> None:
    ignored = not_the_probe(failurePolicy="Ignore")
    await configure(
        play,
        hook("broken", **ignored),
        hook("slow", **ignored),
        hook("first", **not_the_probe()),
    )
    await play.create(MAPS, a_map())
    play.note_calls()


async def webhooks_that_outlast_the_request(play: Play) -> None:
    await configure(play, hook("slow", **not_the_probe(failurePolicy="Ignore", timeoutSeconds=3)))
    await play.given_up(MAPS, a_map(), timeout="1s")
    await asyncio.sleep(3)
    await play.get(ONE_MAP)


async def webhooks_that_must_answer(play: Play) -> None:
    await configure(play, hook("broken", **not_the_probe()))
    await play.create(MAPS, a_map())
    await play.create(MAPS, a_map("other", labels={"probe": "yes"}))


async def webhooks_that_deny(play: Play) -> None:
    await configure(play, hook("denies", **not_the_probe()))
    await play.create(MAPS, a_map())
    await play.apply(ONE_MAP, a_map())


async def webhooks_that_select(play: Play) -> None:
    selected: Json = {"matchLabels": {"on": "yes"}}
    condition: Json = {
        "name": "changed",
        "expression": "request.operation == 'CREATE' || object.data != oldObject.data",
    }
    broken: Json = {"name": "broken", "expression": "object.metadata.annotations['a'] == 'b'"}
    await configure(
        play,
        hook("first", objectSelector=selected),
        hook("looks", objectSelector={"matchLabels": {"first": "yes"}}),
        hook("second", **not_the_probe(matchConditions=[condition])),
        hook("third", **not_the_probe(matchConditions=[broken], failurePolicy="Ignore")),
    )
    await play.create(MAPS, a_map(labels={"on": "yes"}))
    await play.patch(ONE_MAP, labels(on=None, first=None))
    await play.patch(ONE_MAP, labels(other="1"))
    await play.patch(ONE_MAP, {"data": {"a": "2"}})
    play.note_calls()


async def policies(play: Play) -> None:
    rule: Json = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "resources": ["configmaps"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
    }
    validation: Json = {
        "expression": "request.operation == 'DELETE' ? oldObject.?data['keep'].orValue('') == ''"
        " : object.data['a'] != 'bad'",
        "message": "no",
    }
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": HERE},
        "validations": [validation],
    }
    await enforce(play, {"metadata": {"name": "NS-policy"}, "spec": spec})
    denied: Tree = {**a_map(), "data": {"a": "bad"}}
    await play.until(MAPS, denied, is_denied)
    await play.create(MAPS, denied)
    await play.create(MAPS, a_map())
    await play.patch(ONE_MAP, {"data": {"a": "bad"}})
    await play.patch(ONE_MAP, {"data": {"keep": "yes"}})
    await play.delete(ONE_MAP)
    await play.patch(ONE_MAP, {"data": {"keep": None}})
    await play.delete(ONE_MAP)


def is_denied(answer: Tree) -> bool:
    return answer["kind"] == "Status"


async def enforce(play: Play, policy: Tree) -> None:
    metadata = policy["metadata"]
    assert isinstance(metadata, dict)
    kind: Tree = {"apiVersion": "admissionregistration.k8s.io/v1"}
    await play.quietly(POLICIES, {**kind, "kind": "ValidatingAdmissionPolicy", **policy})
    binding: Tree = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
    }
    await play.quietly(BINDINGS, {**kind, **binding})


RING: Final = RingName("contract")
OWNER, DRAIN = owner_label(RING), drain_label(RING)


def pod(name: str) -> User:
    return User(
        username="system:serviceaccount:default:contract",
        extra={"authentication.kubernetes.io/pod-name": (name,)} if name else {},
    )


async def the_fence(play: Play) -> None:
    spec: Json = {
        "resources": [
            {
                "group": "contract.example.com",
                "resource": "sites",
                "controlledResources": [{"group": "", "resource": "configmaps"}],
            }
        ]
    }
    ring = msgspec.convert({"metadata": {"name": RING}, "spec": spec}, ControllerRing)
    policy, _ = fence_of(ring, [ObjectRef("default", "contract")])
    assert isinstance(policy, dict)
    await enforce(play, policy)
    theirs: Json = {OWNER: "b"}
    play.user = pod("a")
    await play.until(MAPS, a_map(labels=theirs), is_denied)
    await play.create(MAPS, a_map(labels=theirs))
    await play.create(MAPS, a_map(labels={OWNER: "a"}))
    await play.create(SITES, {**a_site(), "metadata": {"name": "one", "labels": theirs}})
    await play.patch(ONE_SITE, labels(a="1"))
    await play.patch(f"{ONE_SITE}/status", {"status": {"a": 1}})
    await play.delete(ONE_SITE)
    await play.patch(ONE_MAP, {"metadata": {"labels": {DRAIN: "true"}}})
    await play.patch(ONE_MAP, {"metadata": {"labels": {OWNER: "b"}}})
    await play.patch(ONE_MAP, labels(a="1"))
    play.user = pod("")
    await play.patch(ONE_MAP, labels(a="2"))
    play.user = pod("b")
    await play.patch(ONE_MAP, labels(a="2"))
    await play.delete(ONE_MAP)
    await play.patch(ONE_SITE, labels(a="1"))
    for name in ("a", "b"):
        metadata: Json = {"name": name, "labels": {RING_LABEL: RING}}
        await play.create(LEASES, {"metadata": metadata, "spec": {"holderIdentity": name}})
    play.user = User()
    await play.patch(ONE_MAP, {"metadata": {"labels": {DRAIN: "true"}}})
    play.user = pod("a")
    await play.patch(ONE_MAP, {"metadata": {"labels": {DRAIN: None, OWNER: None}}})
    await play.delete(ONE_MAP)


ADMISSION_SEQUENCES: Final[tuple[Sequence, ...]] = (
    webhooks_in_order,
    webhooks_again,
    webhooks_that_fail,
    webhooks_that_outlast_the_request,
    webhooks_that_must_answer,
    webhooks_that_deny,
    webhooks_that_select,
    policies,
    the_fence,
)
