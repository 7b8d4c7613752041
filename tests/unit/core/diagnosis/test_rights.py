"""Facts about `sharder.core.diagnosis.rights`: a missing rule is named as it is to be added."""

from pathlib import Path

import yaml

from sharder.core.diagnosis.finding import Level
from sharder.core.diagnosis.rights import (
    FOR_ALL,
    Rule,
    own_rules,
    rights,
    ring_rules,
    service_account,
)
from sharder.core.names import ObjectRef
from tests.support.values import CONFIGMAPS, SECRETS, WIDGETS, ring

MANIFEST = Path(__file__).parents[4] / "hack/manifests/sharder.yaml"
"""What the chart gives too (tests/chart)."""
USER = "system:serviceaccount:sharding-system:sharder"


def granted(kind: str) -> dict[tuple[str, str, str], frozenset[str]]:
    """Return the verbs of the role `sharder` by group, resource and name."""
    documents = yaml.safe_load_all(MANIFEST.read_text())
    (role,) = (
        each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, "sharder")
    )
    return {
        (group, resource, name): frozenset(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def asked(rules: tuple[Rule, ...]) -> dict[tuple[str, str, str], frozenset[str]]:
    return {(*rule.resource, rule.name): frozenset(rule.verbs) for rule in rules}


def test_the_rights_that_are_asked_for_are_those_of_the_chart() -> None:
    assert asked(FOR_ALL) == granted("ClusterRole")
    assert asked(own_rules("sharding-system", "sharder-certificates")) == granted("Role")


def test_a_ring_needs_rights_on_each_of_its_resources() -> None:
    rules = ring_rules([(ring(), {"default"})], most_namespaces=1)

    assert [rule.resource for rule in rules] == [CONFIGMAPS, SECRETS, WIDGETS]
    assert {rule.verbs for rule in rules} == {("list", "patch", "get", "watch")}
    assert {rule.instead for rule in rules} == {("default",)}


def test_a_missing_right_on_objects_names_the_rule_and_the_value_of_the_chart() -> None:
    (rule, *_) = ring_rules([(ring(), ())], most_namespaces=1)

    (found,) = rights({rule: ["patch", "list"]}, USER, asked=37)

    assert found.level is Level.FAIL
    assert found.message == f"{USER} is not allowed to list, patch configmaps"
    assert found.advice == (
        'add {apiGroups: [""], resources: [configmaps], verbs: [list, patch]} to the sharder\'s '
        "ClusterRole (chart value rings)"
    )


def test_a_service_account_has_the_groups_of_its_namespace() -> None:
    name, groups = service_account(ObjectRef("sharding-system", "sharder"))

    assert name == USER
    assert {"system:serviceaccounts:sharding-system", "system:authenticated"} <= set(groups)


def test_a_sharder_with_files_needs_no_secret() -> None:
    assert [rule.resource.resource for rule in own_rules("here", None)] == ["leases"]
