"""The objects that the chart renders, whatever their configuration."""

import pytest
import yaml

from tests.chart.rendering import CRD, Helm, decode_manifests, find, pod_of

NAMESPACED = {
    "ConfigMap",
    "Deployment",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
}
CRD_NAME = "controllerrings.sharding.timebertt.dev"


def test_everything_has_the_name_of_the_release(helm: Helm) -> None:
    names = {each.metadata.name for each in decode_manifests(helm.template())}

    assert names == {"sharder", "sharder-certificates", "sharder-metrics-reader", CRD_NAME}


def test_another_release_shares_no_name_but_the_crd(helm: Helm) -> None:
    ours = {each.metadata.name for each in decode_manifests(helm.template())}

    theirs = {each.metadata.name for each in decode_manifests(helm.template(release="other"))}

    assert ours & theirs == {CRD_NAME}


def test_what_has_a_namespace_goes_to_that_of_the_release(helm: Helm) -> None:
    rendered = decode_manifests(helm.template(namespace="elsewhere"))

    namespaces = {each.kind: each.metadata.namespace for each in rendered}

    assert {kind for kind, namespace in namespaces.items() if namespace} == NAMESPACED
    assert {namespace for namespace in namespaces.values() if namespace} == {"elsewhere"}


def test_helm_leaves_the_webhooks_to_the_sharder(default: str) -> None:
    kinds = {each.kind for each in decode_manifests(default)}

    assert not [kind for kind in kinds if kind.endswith("WebhookConfiguration")]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"nameOverride": "other"}, "sharder-other"),
        ({"fullnameOverride": "other"}, "other"),
    ],
)
def test_another_name_may_be_given(helm: Helm, values: dict[str, object], name: str) -> None:
    assert pod_of(helm.template(values), name).spec.service_account_name == name


def test_the_crd_is_a_file_without_template_directives(helm: Helm) -> None:
    assert "{{" not in CRD.read_text()
    rendered = list(yaml.load_all(helm.template(), Loader=yaml.CSafeLoader))
    assert yaml.safe_load(CRD.read_text()) in rendered


def test_the_crd_outlives_the_release(helm: Helm) -> None:
    crd = find(helm.template(), "CustomResourceDefinition", CRD_NAME)

    assert crd.metadata.annotations["helm.sh/resource-policy"] == "keep"
