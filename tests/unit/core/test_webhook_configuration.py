"""Facts about the MutatingWebhookConfiguration of a ring."""

import json
from dataclasses import replace

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.api.selector import LabelSelector, Requirement
from sharder.core.webhook_configuration import (
    Endpoint,
    Registration,
    configuration_of,
    match_conditions,
    parts_of,
)
from tests.support.values import DRAIN, OWNER, ring

SERVICE = Endpoint(service_namespace="sharding-system", service_name="webhook", ca_bundle="Q0E=")
DEFAULT = LabelSelector(
    match_expressions=(
        Requirement(key="kubernetes.io/metadata.name", operator="NotIn", values=("kube-system",)),
    )
)
REGISTRATION = Registration(
    endpoint=SERVICE,
    default_namespaces=DEFAULT,
    excluded=frozenset({"kube-system", "own"}),
    sharders=frozenset({"system:serviceaccount:sharding-system:sharder"}),
    annotations={"cert-manager.io/inject-ca-from": "a/b"},
)


def webhook(
    of: ControllerRing | None = None, registration: Registration = REGISTRATION
) -> dict[str, Json]:
    body = configuration_of(of or ring(), registration)
    (found,) = json.loads(json.dumps(body))["webhooks"]
    assert isinstance(found, dict)
    return found


def test_it_carries_the_names_of_the_protocol() -> None:
    body = json.loads(json.dumps(configuration_of(ring(), REGISTRATION)))

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


def test_it_never_keeps_a_request_from_passing() -> None:
    found = webhook()

    assert found["name"] == "sharder.sharding.timebertt.dev"
    assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Ignore", 5)
    assert (found["sideEffects"], found["reinvocationPolicy"]) == ("None", "IfNeeded")
    assert found["admissionReviewVersions"] == ["v1"]


def test_it_always_sends_an_object_selector_so_that_the_reference_s_does_not_survive() -> None:
    assert webhook()["objectSelector"] == {}


def test_it_asks_for_every_resource_and_its_status() -> None:
    rules = webhook()["rules"]

    assert isinstance(rules, list)
    assert rules[0] == {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps", "configmaps/status"],
        "scope": "*",
    }
    assert [rule["resources"][0] for rule in rules] == ["configmaps", "secrets", "widgets"]


def test_it_never_asks_for_what_is_never_sharded() -> None:
    resources = (
        RingResource(group="coordination.k8s.io", resource="leases"),
        RingResource(group="*", resource="*"),
    )
    of = ControllerRing(metadata=ring().metadata, spec=RingSpec(resources=resources))

    assert webhook(of)["rules"] == []


def test_the_ring_s_own_selector_replaces_the_default() -> None:
    blue = LabelSelector(match_labels={"team": "blue"})
    of = ControllerRing(metadata=ring().metadata, spec=RingSpec(namespace_selector=blue))

    assert webhook(of)["namespaceSelector"] == {"matchLabels": {"team": "blue"}}
    assert webhook()["namespaceSelector"] == {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
        ]
    }


def test_a_service_is_called_at_the_ring_s_path() -> None:
    at_root = replace(REGISTRATION, endpoint=replace(SERVICE, service_path="/base/"))

    assert webhook()["clientConfig"] == {
        "service": {
            "namespace": "sharding-system",
            "name": "webhook",
            "path": "/webhooks/sharder/controllerring/demo",
            "port": 443,
        },
        "caBundle": "Q0E=",
    }
    config = webhook(registration=at_root)["clientConfig"]
    assert isinstance(config, dict)
    assert config["service"]["path"] == "/base/webhooks/sharder/controllerring/demo"


def test_a_token_stands_before_the_path_that_the_reference_has_and_is_not_shown() -> None:
    registration = replace(
        REGISTRATION,
        endpoint=Endpoint(url="https://sharder"),
        token="0a1b",  # noqa: S106
    )

    config = webhook(registration=registration)["clientConfig"]

    assert isinstance(config, dict)
    assert config["url"] == "https://sharder/0a1b/webhooks/sharder/controllerring/demo"
    assert "0a1b" not in repr(registration)


def test_a_url_is_called_at_the_ring_s_path_appended_once() -> None:
    endpoint = Endpoint(url="https://sharder:9443/")

    assert webhook(registration=replace(REGISTRATION, endpoint=endpoint))["clientConfig"] == {
        "url": "https://sharder:9443/webhooks/sharder/controllerring/demo"
    }


def conditions(
    sharders: frozenset[str] = frozenset({"b", "a"}), of: ControllerRing | None = None
) -> dict[str, str]:
    of = of or ring()
    return match_conditions(of, replace(REGISTRATION, sharders=sharders), parts_of(of)[0])


def test_the_expression_names_labels_and_sharders() -> None:
    expression = conditions()["concerns-owner"]

    assert f"object.metadata.?labels[\"{OWNER}\"].orValue('') == ''" in expression
    new, old = (f'{obj}.metadata.?labels["{DRAIN}"]' for obj in ("object", "oldObject"))
    assert f"{new} != {old}" in expression
    assert '!(request.userInfo.username in ["a", "b"])' in expression


def test_user_names_are_escaped_as_cel_takes_them() -> None:
    # CEL refuses the escapes of surrogates that JSON writes for what is outside of the plane.
    expression = conditions(frozenset({'"quoted" \\ \U0001f600'}))["concerns-owner"]

    assert '["\\"quoted\\" \\\\ \U0001f600"]' in expression


def test_excluded_namespaces_are_never_asked_about_whatever_the_ring_selects() -> None:
    assert 'request.namespace in ["kube-system", "own"]' in conditions()["in-scope"]


def test_what_nothing_controls_is_not_asked_about_where_a_resource_is_only_controlled() -> None:
    only_main = ControllerRing(
        metadata=ring().metadata, spec=RingSpec(resources=(RingResource(resource="secrets"),))
    )

    assert '["configmaps"]' in conditions()["has-controller"]
    assert f"labels[\"{OWNER}\"].orValue('') != ''" in conditions()["has-controller"]
    assert "has-controller" not in conditions(of=only_main)


def test_the_ring_s_object_selector_is_the_webhook_s() -> None:
    blue = LabelSelector(match_labels={"team": "blue"})
    of = ControllerRing(metadata=ring().metadata, spec=RingSpec(object_selector=blue))

    assert webhook(of)["objectSelector"] == {"matchLabels": {"team": "blue"}}


def selecting() -> ControllerRing:
    """A ring over blue Secrets, with the ConfigMaps that they control."""
    blue = LabelSelector(match_labels={"team": "blue"})
    secrets = RingResource(
        resource="secrets", controlled_resources=(ControlledResource(resource="configmaps"),)
    )
    spec = RingSpec(resources=(secrets,), object_selector=blue)
    return ControllerRing(metadata=ring().metadata, spec=spec)


def test_what_is_controlled_is_asked_about_whatever_the_object_selector_says() -> None:
    main, controlled = json.loads(json.dumps(configuration_of(selecting(), REGISTRATION)))[
        "webhooks"
    ]

    assert main["name"] == "sharder.sharding.timebertt.dev"
    assert main["objectSelector"] == {"matchLabels": {"team": "blue"}}
    assert [rule["resources"][0] for rule in main["rules"]] == ["secrets"]
    assert controlled["name"] == "controlled.sharder.sharding.timebertt.dev"
    assert controlled["objectSelector"] == {}
    assert [rule["resources"][0] for rule in controlled["rules"]] == ["configmaps"]


def test_both_webhooks_of_a_ring_are_the_same_but_for_what_they_are_asked_about() -> None:
    main, controlled = json.loads(json.dumps(configuration_of(selecting(), REGISTRATION)))[
        "webhooks"
    ]

    differ = {key for key in main.keys() | controlled.keys() if main[key] != controlled[key]}
    assert differ == {"name", "objectSelector", "rules", "matchConditions"}
    named = [[each["name"] for each in of["matchConditions"]] for of in (main, controlled)]
    assert named == [
        ["in-scope", "concerns-owner"],
        ["in-scope", "concerns-owner", "has-controller"],
    ]


def test_where_an_object_may_come_into_scope_every_change_of_labels_is_asked_about() -> None:
    # It may bear the label of a shard that is gone.
    change = "labels.orValue({}) != oldObject.metadata.?labels.orValue({})"

    def asks(selector: LabelSelector | None) -> bool:
        of = ControllerRing(metadata=ring().metadata, spec=RingSpec(object_selector=selector))
        return change in conditions(of=of)["concerns-owner"]

    assert asks(LabelSelector(match_labels={"team": "blue"}))
    assert not asks(LabelSelector())
    assert not asks(None)
