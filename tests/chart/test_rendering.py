"""The objects that the chart renders, whatever their configuration."""

from tests.chart.rendering import Helm, decode_manifests, find

CRD_NAME = "controllerrings.sharding.timebertt.dev"


def test_everything_but_the_crd_has_the_name_of_the_release(helm: Helm) -> None:
    ours, theirs = (
        {each.metadata.name for each in decode_manifests(helm.template(release=release))}
        for release in ("sharder", "other.1")
    )

    assert ours == {"sharder", "sharder-certificates", "sharder-metrics-reader", CRD_NAME}
    assert ours & theirs == {CRD_NAME}
    assert not [name for name in theirs - ours if "." in name]  # a Service cannot have it


def test_helm_leaves_the_webhooks_to_the_sharder(default: str) -> None:
    kinds = {each.kind for each in decode_manifests(default)}

    assert not [kind for kind in kinds if kind.endswith("WebhookConfiguration")]


def test_the_crd_outlives_the_release(helm: Helm) -> None:
    crd = find(helm.template(), "CustomResourceDefinition", CRD_NAME)

    assert crd.metadata.annotations["helm.sh/resource-policy"] == "keep"
