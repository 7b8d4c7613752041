"""Facts about the MutatingWebhookConfiguration of a ring."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TypedDict

import pytest
from msgspec import structs

from sharder.core.api.meta import NAME_LABEL, Json, LabelSelector
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.webhook_configuration import Registration, WebhookConfig, configuration_of
from tests.support.values import OWNER, ring


def selecting(*controlled: str) -> ControllerRing:
    """A ring over blue Secrets, with what they control."""
    secrets = RingResource(
        resource="secrets",
        controlled_resources=tuple(ControlledResource(resource=each) for each in controlled),
    )
    spec = RingSpec(resources=(secrets,), object_selector=LabelSelector(match_labels=BLUE))
    return ControllerRing(metadata=ring().metadata, spec=spec)


def not_in(*names: str) -> Json:
    return {"key": NAME_LABEL, "operator": "NotIn", "values": [*names]}


BLUE = {"team": "blue"}
REGISTRATION = Registration(
    config=WebhookConfig(annotations={"cert-manager.io/inject-ca-from": "a/b"}),
    excluded=frozenset({"kube-system", "own"}),
    sharders=frozenset({"system:serviceaccount:sharding-system:sharder"}),
)


UNASSIGNED = "sharder.sharding.timebertt.dev"
LABELLED = f"labelled.{UNASSIGNED}"


class Condition(TypedDict):
    name: str
    expression: str


class Found(TypedDict):
    """A webhook as the API server gets it."""

    name: str
    matchConditions: list[Condition]
    namespaceSelector: dict[str, Json]
    failurePolicy: str
    timeoutSeconds: int
    sideEffects: str
    reinvocationPolicy: str
    admissionReviewVersions: list[str]


def webhooks(
    of: ControllerRing | None = None,
    registration: Registration = REGISTRATION,
    shard_namespaces: Iterable[str] = ("shards",),
) -> dict[str, Found]:
    """Return the webhooks of a ring by name, in their order."""
    body = json.loads(json.dumps(configuration_of(of or ring(), registration, shard_namespaces)))
    return {each["name"]: each for each in body["webhooks"]}


def conditions(webhook: Found) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in webhook["matchConditions"]}


def test_it_carries_the_names_of_the_protocol() -> None:
    body = json.loads(json.dumps(configuration_of(ring(), REGISTRATION, ())))

    assert body["kind"] == "MutatingWebhookConfiguration"
    assert body["metadata"] == {
        "name": "controllerring-demo",
        "labels": {
            "app.kubernetes.io/name": "controller-sharding",
            "alpha.sharding.timebertt.dev/controllerring": "demo",
        },
        "annotations": {"cert-manager.io/inject-ca-from": "a/b"},
        "ownerReferences": [
            {
                "apiVersion": "sharding.timebertt.dev/v1alpha1",
                "kind": "ControllerRing",
                "name": "demo",
                "uid": "ring-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_no_webhook_keeps_a_request_from_passing() -> None:
    for found in webhooks().values():
        assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Ignore", 5)
        assert (found["sideEffects"], found["reinvocationPolicy"]) == ("None", "IfNeeded")
        assert found["admissionReviewVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        (None, {"matchExpressions": [not_in("kube-system", "own")]}),
        (
            LabelSelector(match_labels=BLUE),
            {"matchLabels": BLUE, "matchExpressions": [not_in("kube-system", "own")]},
        ),
    ],
)
def test_excluded_namespaces_are_never_selected_whatever_the_ring_selects(
    own: LabelSelector | None, sent: Json
) -> None:
    of = ControllerRing(
        metadata=ring().metadata, spec=structs.replace(ring().spec, namespace_selector=own)
    )

    assert {json.dumps(found["namespaceSelector"]) for found in webhooks(of).values()} == {
        json.dumps(sent)
    }


def test_user_names_are_escaped_as_cel_takes_them() -> None:
    # CEL refuses the escapes of surrogates that JSON writes for what is outside of the plane.
    registration = replace(REGISTRATION, sharders=frozenset({'"quoted" \\ \U0001f600'}))

    for name in (LABELLED, UNASSIGNED):
        found = " ".join(conditions(webhooks(registration=registration)[name]).values())
        assert '["\\"quoted\\" \\\\ \U0001f600"]' in found


def test_new_controlled_objects_do_not_count_if_the_pod_in_their_label_writes_them() -> None:
    labelled = conditions(webhooks(shard_namespaces=("b", "a"))[LABELLED])["concerns-owner"]
    only_main = ControllerRing(
        metadata=ring().metadata, spec=RingSpec(resources=(RingResource(resource="secrets"),))
    )

    pod = 'request.userInfo.?extra["authentication.kubernetes.io/pod-name"][0]'
    assert f'object.metadata.?labels["{OWNER}"] == {pod}' in labelled
    assert '["system:serviceaccount:a:", "system:serviceaccount:b:"].exists(' in labelled
    assert "pod-name" not in conditions(webhooks(only_main)[LABELLED])["concerns-owner"]


def test_where_an_object_can_come_into_scope_every_change_of_labels_counts() -> None:
    # It can have the label of a shard that is gone.
    change = "labels.orValue({}) != oldObject.metadata.?labels.orValue({})"

    found = webhooks(selecting("configmaps"))

    assert [change in str(each["matchConditions"]) for each in found.values()] == [
        False, True, False, False, False,
    ]  # fmt: skip
    assert change not in str(webhooks())
