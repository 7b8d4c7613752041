"""The ControllerRings that the chart creates."""

from collections.abc import Mapping

import msgspec

from tests.chart.rendering import CHART, REQUIRED, Helm, find

RESOURCES = [{"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]}]
SERVED = "sharding.timebertt.dev/v1alpha1/ControllerRing"
HOOK = "helm.sh/hook"


def ring(**more: object) -> Mapping[str, object]:
    return {"rings": [{"name": "made", "resources": RESOURCES, **more}]}


def spec_of(rendered: str) -> Mapping[str, object]:
    return find(rendered, "ControllerRing", "made").spec


def test_a_created_ring_has_the_resources_and_the_other_fields(helm: Helm) -> None:
    spec = {"placement": {"strategy": "Spread"}, "shardNamespaces": ["shards"]}

    assert spec_of(helm.template(ring(create=True, spec=spec))) == {"resources": RESOURCES, **spec}


def test_a_created_ring_selects_the_namespaces_in_which_there_are_rights(helm: Helm) -> None:
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}

    spec = spec_of(helm.template(ring(create=True, namespaces=["a", "b"])))

    assert spec["namespaceSelector"] == {"matchExpressions": [named]}


def test_the_first_installation_creates_rings_after_the_crd(helm: Helm) -> None:
    made = find(helm.template(ring(create=True)), "ControllerRing", "made").metadata.annotations

    assert made[HOOK] == "post-install,post-upgrade"
    # By default helm deletes what a hook has made before it makes it again.
    assert made["helm.sh/hook-delete-policy"] == "hook-failed"


def test_helm_adopts_a_ring_of_the_first_installation_and_keeps_it_when_it_goes(
    helm: Helm,
) -> None:
    command = ("template", "sharder", str(CHART), "-n", "ns", "--api-versions", SERVED)
    with_crd = helm.run(*command, values={**REQUIRED, **ring(create=True)})
    for rendered in (helm.template(ring(create=True)), with_crd):
        meta = find(rendered, "ControllerRing", "made").metadata

        assert meta.labels["app.kubernetes.io/managed-by"] == "Helm"
        assert meta.annotations["meta.helm.sh/release-name"] == "sharder"
        assert meta.annotations["helm.sh/resource-policy"] == "keep"


def test_the_rights_follow_the_ring_that_is_created(helm: Helm) -> None:
    rendered = helm.template(ring(create=True))

    rules = find(rendered, "ClusterRole", "sharder-sharded-resources").rules

    assert [rule.resources for rule in rules] == [("configmaps", "secrets")]
    assert msgspec.convert(spec_of(rendered)["resources"], list[dict[str, object]]) == RESOURCES
