"""The rights that the chart gives: exactly what the values list, and nothing by a wildcard."""

import pytest

from sharder.core.ring.build import EXCLUDED_GROUPS, EXCLUDED_RESOURCES
from tests.chart.rendering import Helm, HelmError, Manifest, decode_manifests, find

SHARDED = "sharder-sharded-resources"


def ring(*resources: object, name: str = "ring") -> dict[str, object]:
    return {"name": name, "resources": resources}


def roles_of(rendered: str) -> dict[str, Manifest]:
    """Return the Roles and ClusterRoles by kind and name."""
    return {
        f"{each.kind} {each.metadata.name}": each
        for each in decode_manifests(rendered)
        if each.kind in {"ClusterRole", "Role"}
    }


def test_every_role_but_the_readers_is_bound_to_the_sharder_alone(helm: Helm) -> None:
    rings = [ring({"resource": "secrets"})]

    rendered = decode_manifests(helm.template({"rings": rings}))

    bound = {
        (each.role_ref.kind, each.role_ref.name): [subject.name for subject in each.subjects]
        for each in rendered
        if each.role_ref is not None
    }
    assert bound == {
        ("ClusterRole", "sharder"): ["sharder"],
        ("ClusterRole", SHARDED): ["sharder"],
        ("Role", "sharder"): ["sharder"],
    }


def test_nothing_may_be_sharded_unless_a_ring_lists_it(helm: Helm) -> None:
    empty: list[object] = [ring()]

    assert f"ClusterRole {SHARDED}" not in roles_of(helm.template())
    assert f"ClusterRole {SHARDED}" not in roles_of(helm.template({"rings": empty}))


def test_the_resources_of_all_rings_get_exactly_the_four_verbs(helm: Helm) -> None:
    controlled = [{"resource": "configmaps"}, {"group": "apps", "resource": "replicasets"}]
    rings = [
        ring({"resource": "secrets", "hashKey": "Object", "controlledResources": controlled}),
        ring({"group": "apps", "resource": "deployments"}, {"resource": "secrets"}, name="two"),
    ]

    rules = find(helm.template({"rings": rings}), "ClusterRole", SHARDED).rules

    assert [(rule.api_groups, rule.resources) for rule in rules] == [
        (("",), ("configmaps", "secrets")),
        (("apps",), ("deployments", "replicasets")),
    ]
    assert {rule.verbs for rule in rules} == {("get", "list", "watch", "patch")}


def test_a_ring_with_namespaces_gets_its_rights_there_alone(helm: Helm) -> None:
    rings = [
        {**ring({"resource": "secrets"}), "namespaces": ["a", "b"]},
        {**ring({"group": "apps", "resource": "deployments"}, name="two"), "namespaces": ["b"]},
    ]

    rendered = [
        each
        for each in decode_manifests(helm.template({"rings": rings}))
        if each.metadata.name == SHARDED
    ]

    roles = {
        each.metadata.namespace: [rule.resources for rule in each.rules]
        for each in rendered
        if each.kind == "Role"
    }
    bound = {
        each.metadata.namespace: (each.role_ref.kind, [who.name for who in each.subjects])
        for each in rendered
        if each.role_ref is not None
    }
    assert roles == {"a": [("secrets",)], "b": [("secrets",), ("deployments",)]}
    assert bound == dict.fromkeys(["a", "b"], ("Role", ["sharder"]))
    assert {each.kind for each in rendered} == {"Role", "RoleBinding"}


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        *[(group, "things") for group in EXCLUDED_GROUPS],
        *[(each.group, each.resource) for each in EXCLUDED_RESOURCES],
    ],
)
def test_what_is_never_sharded_gives_no_right(helm: Helm, group: str, resource: str) -> None:
    refused = {"group": group, "resource": resource}
    rings = [ring({"resource": "secrets", "controlledResources": [refused]}, name="mine")]

    with pytest.raises(HelmError, match=f"rings: mine lists {resource} .* never sharded"):
        helm.template({"rings": rings})


def test_without_metrics_the_chart_grants_no_reviews_of_their_readers(helm: Helm) -> None:
    roles = roles_of(helm.template({"config": {"metrics": {"bindAddress": "0"}}}))

    groups = {group for role in roles.values() for rule in role.rules for group in rule.api_groups}
    assert "ClusterRole sharder-metrics-reader" not in roles
    assert not groups & {"authentication.k8s.io", "authorization.k8s.io"}
