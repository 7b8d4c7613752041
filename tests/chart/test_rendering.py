"""The objects that the chart renders, whatever their configuration."""

import msgspec
import pytest
import yaml

import sharder
from tests.chart.rendering import CHART, CRD, Helm, HelmError, Manifest, decode_manifests, find

NAMESPACED = {"ConfigMap", "Deployment", "Role", "RoleBinding", "Service", "ServiceAccount"}


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    args: tuple[str, ...]
    image: str


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service_account_name: str
    containers: tuple[Container]


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    spec: PodSpec


def pod_of(rendered: str) -> PodSpec:
    template = find(rendered, "Deployment", "sharder").spec["template"]
    return msgspec.convert(template, PodTemplate).spec


def roles_of(rendered: str) -> list[Manifest]:
    return [each for each in decode_manifests(rendered) if each.kind in {"ClusterRole", "Role"}]


def test_the_chart_passes_the_strict_lint(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))


def test_the_version_of_the_application_is_that_of_the_package() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == sharder.__version__


def test_everything_has_the_name_of_the_release(helm: Helm) -> None:
    names = {each.metadata.name for each in decode_manifests(helm.template())}

    assert names == {"sharder", "controllerrings.sharding.timebertt.dev"}


def test_another_release_shares_no_name_but_the_crd(helm: Helm) -> None:
    ours = {each.metadata.name for each in decode_manifests(helm.template())}

    theirs = {each.metadata.name for each in decode_manifests(helm.template(release="other"))}

    assert ours & theirs == {"controllerrings.sharding.timebertt.dev"}


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
    crd = find(
        helm.template(), "CustomResourceDefinition", "controllerrings.sharding.timebertt.dev"
    )

    assert crd.metadata.annotations["helm.sh/resource-policy"] == "keep"


def test_no_right_is_a_wildcard(helm: Helm) -> None:
    resources = [{"group": "apps", "resources": ["deployments"]}]

    roles = roles_of(helm.template({"shardedResources": resources}))

    words = {
        word
        for role in roles
        for rule in role.rules
        for word in (*rule.api_groups, *rule.resources, *rule.verbs)
    }
    assert len(roles) == 3
    assert not [word for word in words if "*" in word]


def test_secrets_are_read_and_changed_by_name_only(helm: Helm) -> None:
    rules = find(helm.template(), "Role", "sharder").rules

    [rule] = [rule for rule in rules if "get" in rule.verbs and "secrets" in rule.resources]
    assert rule.resource_names == ("sharder-certificates",)


def test_the_role_follows_the_configured_name_of_the_secret(helm: Helm) -> None:
    values = {"config": {"certificates": {"secretName": "mine"}}}

    rules = find(helm.template(values), "Role", "sharder").rules

    assert {name for rule in rules for name in rule.resource_names} == {"mine"}


def test_nothing_may_be_sharded_unless_it_is_listed(helm: Helm) -> None:
    [cluster_role] = [r for r in roles_of(helm.template()) if r.kind == "ClusterRole"]

    assert cluster_role.metadata.name == "sharder"


def test_sharded_resources_get_exactly_the_four_verbs(helm: Helm) -> None:
    resources = [
        {"resources": ["secrets", "configmaps"]},
        {"group": "apps", "resources": ["deployments"]},
    ]

    rendered = helm.template({"shardedResources": resources})

    rules = find(rendered, "ClusterRole", "sharder-sharded-resources").rules
    assert [(rule.api_groups, rule.resources) for rule in rules] == [
        (("",), ("secrets", "configmaps")),
        (("apps",), ("deployments",)),
    ]
    assert {rule.verbs for rule in rules} == {("get", "list", "watch", "patch")}


@pytest.mark.parametrize("entry", [{"group": "*", "resources": ["a"]}, {"resources": ["*"]}])
def test_a_wildcard_among_sharded_resources_is_refused(
    helm: Helm, entry: dict[str, object]
) -> None:
    with pytest.raises(HelmError, match="shardedResources takes no wildcard"):
        helm.template({"shardedResources": [entry]})


def test_sharded_resources_without_resources_are_refused(helm: Helm) -> None:
    with pytest.raises(HelmError, match="each of shardedResources needs resources"):
        helm.template({"shardedResources": [{"group": "apps"}]})


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
