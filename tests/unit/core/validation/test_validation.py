"""Facts about what is refused of a ring; `refusals.txt` beside this file has the texts."""

import os
from pathlib import Path

import msgspec
import pytest
import yaml

from sharder.core.api.ring import ControllerRing
from sharder.core.names import GroupResource
from sharder.core.ring.build import EXCLUDED_RESOURCES, reason_against
from sharder.core.validation import MAX_REFUSALS, MAX_RESOURCES, MAX_SELECTED, Fault, refusals
from tests.support.manifests import ring_specs

TEXTS = Path(__file__).parent / "refusals.txt"
EXCLUDED_IN_GROUPS = [
    GroupResource("coordination.k8s.io", "leases"),
    GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    *(
        GroupResource("rbac.authorization.k8s.io", kind)
        for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    ),
    GroupResource("sharding.timebertt.dev", "controllerrings"),
    GroupResource("authentication.k8s.io", "tokenreviews"),
    GroupResource("authorization.k8s.io", "subjectaccessreviews"),
]

ACCEPTED = {
    "no resources": "{}",
    "one resource controlled by two": "resources: [{resource: secrets, controlledResources: "
    "[{resource: pods}]}, {resource: configmaps, controlledResources: [{resource: pods}]}]",
    "one name in two groups": "resources: [{resource: jobs}, {group: batch, resource: jobs}]",
    "namespaces": "resources: [{resource: namespaces}]",
    "a custom resource named events": "resources: [{group: e.example.com, resource: events}]",
    "selectors": "{objectSelector: {matchLabels: {a: '', example.com/b: c}, "
    "matchExpressions: [{key: a, operator: In, values: ['', x]}]}}",
    "an installed strategy": "placement: {strategy: Custom, custom: mine}",
}


def ring_with(spec: object) -> ControllerRing:
    return msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)


def read(text: str) -> ControllerRing:
    return ring_with(yaml.safe_load(text))


@pytest.mark.parametrize("name", ring_specs())
def test_rings_written_for_the_reference_are_accepted(name: str) -> None:
    assert refusals(ring_with(ring_specs()[name]), ()) == ()


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_ring_that_can_work_is_accepted(case: str) -> None:
    assert refusals(read(ACCEPTED[case]), ("mine",)) == ()


def test_each_ring_of_the_file_is_refused_as_it_says() -> None:
    written = TEXTS.read_text()
    rings = [line for line in written.splitlines() if not line.startswith(" ")]

    said = ""
    for text in rings:
        said += f"{text}\n" + "".join(f"  {each}\n" for each in refusals(read(text), ("b", "a")))

    if os.environ.get("REWRITE_GOLDEN"):
        TEXTS.write_text(said)
    assert said == written
    (none,) = refusals(read("placement: {strategy: Custom, custom: x}"), ())
    assert "none is installed" in none.advice


def test_a_long_value_is_cut() -> None:
    labels = {"matchLabels": {"a": "x" * 9999}}

    (refusal,) = refusals(ring_with({"objectSelector": labels}), ())

    assert len(str(refusal)) < 400


@pytest.mark.parametrize("resource", [*EXCLUDED_RESOURCES, *EXCLUDED_IN_GROUPS], ids=str)
def test_what_is_never_sharded_is_refused_with_the_reason(resource: GroupResource) -> None:
    group, name = resource

    (refusal,) = refusals(ring_with({"resources": [{"group": group, "resource": name}]}), ())

    assert (refusal.field, refusal.fault) == ("spec.resources[0]", Fault.FORBIDDEN)
    assert refusal.fault.cause == "FieldValueForbidden"
    assert str(reason_against(resource)) in refusal.advice


def test_no_more_is_reported_at_a_time_than_can_be_read() -> None:
    labels = {f"no key {number}": "" for number in range(MAX_REFUSALS + 1)}

    assert (
        len(refusals(ring_with({"objectSelector": {"matchLabels": labels}}), ())) == MAX_REFUSALS
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_selector_with_more_than_10000_keys_and_values_is_refused_unread(more: int) -> None:
    values = ["x"] * (MAX_SELECTED + more - 1)
    many = {"matchExpressions": [{"key": "no key", "operator": "In", "values": values}]}

    (refusal,) = refusals(ring_with({"namespaceSelector": many}), ())

    assert refusal.value == ("no key" if not more else MAX_SELECTED + 1)


@pytest.mark.parametrize("count", [MAX_RESOURCES, MAX_RESOURCES + 1])
def test_a_ring_has_at_most_a_hundred_resources_controlled_ones_included(count: int) -> None:
    controlled = [{"resource": f"c{number}"} for number in range(count - 2)]
    resources = [{"resource": "a"}, {"resource": "b", "controlledResources": controlled}]

    found = refusals(ring_with({"resources": resources}), ())

    assert [refusal.field for refusal in found] == ["spec.resources"] * (count > MAX_RESOURCES)
