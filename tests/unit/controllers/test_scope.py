"""Facts about what is asked for when looking for objects without owner."""

import pytest

from sharder.controllers.scope import (
    MAX_EXCLUDED,
    MAX_NAMESPACES,
    WHOLE,
    ListRequest,
    ResourceKey,
    scope_of,
    selector_text,
    watches_of,
)
from sharder.core.api.ring import ControllerRing, RingSpec
from sharder.core.api.selector import LabelSelector, Requirement
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import Role
from tests.support.rules import matches
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    DRAIN,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    available,
    ring,
    snapshot,
)

FEW = frozenset(f"few-{number:02}" for number in range(MAX_NAMESPACES))
MANY = FEW | {"one-more"}


def test_a_few_namespaces_are_asked_for_one_by_one() -> None:
    assert scope_of(frozenset({"b", "a"}), {"a", "b", "c"}) == (ListRequest("a"), ListRequest("b"))
    assert len(scope_of(FEW, FEW)) == MAX_NAMESPACES


def test_where_no_namespace_is_selected_nothing_is_asked_for() -> None:
    assert scope_of(frozenset(), {"a"}) == ()


def test_many_namespaces_are_asked_for_at_once_without_some_that_are_not_selected() -> None:
    others = {f"other-{number}" for number in range(20)} | {"kube-system", "sharding-system"}

    (part,) = scope_of(MANY, MANY | others)

    assert part.namespace == ""
    assert part.excluded[:3] == ("kube-system", "sharding-system", "other-0")
    assert len(part.excluded) == MAX_EXCLUDED
    assert part.fields.startswith("metadata.namespace!=kube-system,metadata.namespace!=sharding-")


def test_nothing_that_is_selected_is_left_out() -> None:
    (part,) = scope_of(MANY | {"kube-system"}, MANY | {"kube-system", "other"})

    assert part.excluded == ("other",)


def test_namespaces_that_come_and_go_change_nothing() -> None:
    before = scope_of(MANY, MANY | {"kube-system", "other"})

    assert scope_of(MANY | {"new"}, MANY | {"new", "kube-system", "newer"}, before) == before


def test_a_namespace_that_was_left_out_is_asked_for_once_it_is_selected() -> None:
    before = scope_of(MANY, MANY | {"kube-system", "other"})

    (part,) = scope_of(MANY | {"other"}, MANY | {"kube-system", "other", "new"}, before)

    assert part.excluded == ("kube-system", "new")


def test_what_has_no_namespace_is_asked_for_at_once() -> None:
    assert [(part.namespace, part.fields) for part in WHOLE] == [("", "")]


def test_a_ring_has_a_watch_for_what_has_no_owner_and_one_for_what_is_drained() -> None:
    list_scope = (ListRequest("default"),)

    watches = list(watches_of(snapshot(), list_scope))

    assert {(w.resource_key, w.labels) for w in watches if not w.draining} == {
        (ResourceKey(DEMO, resource), f"!{OWNER}") for resource in (WIDGETS, SECRETS, CONFIGMAPS)
    }
    assert {(w.resource_key, w.labels) for w in watches if w.draining} == {
        (ResourceKey(DEMO, resource), DRAIN) for resource in (WIDGETS, SECRETS)
    }
    assert {w.list_scope for w in watches if not w.draining} == {list_scope}
    assert {w.list_scope for w in watches if w.draining} == {WHOLE}
    assert {w.role for w in watches if w.resource_key.resource == CONFIGMAPS} == {Role.CONTROLLED}


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (Requirement(key="a", operator="Exists"), "a"),
        (Requirement(key="a", operator="DoesNotExist"), "!a"),
        (Requirement(key="a", operator="In", values=("1", "2")), "a in (1,2)"),
        (Requirement(key="a", operator="NotIn", values=("1",)), "a notin (1)"),
        (Requirement(key="a", operator="Near", values=("1",)), ""),
        (Requirement(key="a", operator="In"), ""),
    ],
)
def test_a_selector_is_written_as_requests_take_it(requirement: Requirement, text: str) -> None:
    selector = LabelSelector(match_labels={"z": "1", "b": "2"}, match_expressions=(requirement,))

    assert selector_text(selector) == ",".join(filter(None, ("b=2,z=1", text)))


@pytest.mark.parametrize("labels", [{}, {"a": "1"}, {"a": "3"}, {"a": "1", "b": "2"}, {"b": "2"}])
def test_the_text_of_a_selector_matches_what_the_selector_matches(labels: dict[str, str]) -> None:
    expressions = (
        Requirement(key="a", operator="NotIn", values=("3", "4")),
        Requirement(key="c", operator="DoesNotExist"),
    )
    selector = LabelSelector(match_labels={"b": "2"}, match_expressions=expressions)

    assert matches(selector_text(selector), labels) is selector.matches(labels)


def test_without_a_selector_all_objects_match() -> None:
    assert selector_text(None) == selector_text(LabelSelector()) == ""


@pytest.mark.parametrize(
    ("operator", "names", "is_limited"),
    [
        ("In", ("a", "b"), True),
        ("In", tuple(FEW), True),
        ("In", tuple(MANY), False),
        ("NotIn", ("a", "b"), False),
    ],
)
def test_in_a_ring_that_names_its_namespaces_drains_are_watched_there_alone(
    operator: str, names: tuple[str, ...], is_limited: bool
) -> None:
    named = Requirement(key="kubernetes.io/metadata.name", operator=operator, values=names)
    selector = LabelSelector(match_expressions=(named,))
    spec = RingSpec(resources=ring().spec.resources, namespace_selector=selector)
    selecting = ControllerRing(metadata=ring().metadata, spec=spec)
    list_scope = (ListRequest("a"), ListRequest("b"))

    built = build(selecting, members=available(A, B), namespaces=frozenset({"a", "b"}))
    watches = list(watches_of(built, list_scope))

    drains = {w.list_scope for w in watches if w.draining}
    assert drains == {list_scope if is_limited else WHOLE}
