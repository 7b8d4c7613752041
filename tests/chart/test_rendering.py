"""The objects that the chart renders, whatever their configuration."""

import msgspec
import yaml

import sharder
from tests.chart.rendering import CHART, CRD, Helm, decode_manifests, find

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


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    args: tuple[str, ...]
    image: str
    security_context: dict[str, object]


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service_account_name: str
    containers: tuple[Container]
    security_context: dict[str, object]
    priority_class_name: str = ""


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    spec: PodSpec


def pod_of(rendered: str) -> PodSpec:
    template = find(rendered, "Deployment", "sharder").spec["template"]
    return msgspec.convert(template, PodTemplate).spec


def test_the_version_of_the_application_is_that_of_the_package() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == sharder.__version__


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


def test_the_crd_is_a_file_without_template_directives(helm: Helm) -> None:
    assert "{{" not in CRD.read_text()
    rendered = list(yaml.safe_load_all(helm.template()))
    assert yaml.safe_load(CRD.read_text()) in rendered


def test_the_crd_outlives_the_release(helm: Helm) -> None:
    crd = find(helm.template(), "CustomResourceDefinition", CRD_NAME)

    assert crd.metadata.annotations["helm.sh/resource-policy"] == "keep"


def test_the_pod_runs_the_service_with_the_mounted_configuration(helm: Helm) -> None:
    [container] = pod_of(helm.template()).containers

    assert container.args == ("run", "--config", "/etc/sharder/config.yaml")


def test_the_image_has_the_version_of_the_application_unless_a_tag_is_given(helm: Helm) -> None:
    [default] = pod_of(helm.template()).containers
    [tagged] = pod_of(helm.template({"image": {"repository": "r/s", "tag": "1"}})).containers

    assert default.image == f"sharder:{sharder.__version__}"
    assert tagged.image == "r/s:1"


def test_the_pod_uses_the_named_service_account(helm: Helm) -> None:
    rendered = helm.template({"serviceAccount": {"name": "somebody"}})

    assert pod_of(rendered).service_account_name == "somebody"
    assert find(rendered, "ServiceAccount", "somebody").metadata.name == "somebody"


def test_the_pod_is_confined(helm: Helm) -> None:
    pod = pod_of(helm.template())

    [container] = pod.containers
    assert pod.security_context == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container.security_context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_priority_class_is_optional(helm: Helm) -> None:
    important = pod_of(helm.template({"priorityClassName": "system-cluster-critical"}))

    assert important.priority_class_name == "system-cluster-critical"
    assert not pod_of(helm.template()).priority_class_name
