"""Facts about `sharder.core.api.selector`: what a LabelSelector matches."""

from typing import Literal, TypeAlias

import msgspec
import pytest

from sharder.core.api.selector import LabelSelector, Requirement

Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist"]

HAS_X, HAS_OTHER_X, HAS_NONE = {"k": "x"}, {"k": "other"}, {"unrelated": "x"}


@pytest.mark.parametrize(
    ("operator", "labels", "matches"),
    [
        ("In", HAS_X, True),
        ("In", HAS_OTHER_X, False),
        ("In", HAS_NONE, False),
        ("NotIn", HAS_X, False),
        ("NotIn", HAS_OTHER_X, True),
        ("NotIn", HAS_NONE, True),
        ("Exists", HAS_X, True),
        ("Exists", HAS_OTHER_X, True),
        ("Exists", HAS_NONE, False),
        ("DoesNotExist", HAS_X, False),
        ("DoesNotExist", HAS_OTHER_X, False),
        ("DoesNotExist", HAS_NONE, True),
    ],
)
def test_an_expression_matches_as_in_the_api_server(
    operator: Operator, labels: dict[str, str], matches: bool
) -> None:
    requirement = Requirement(key="k", operator=operator, values=("x", "y"))

    assert requirement.matches(labels) is matches


def test_the_empty_selector_matches_everything() -> None:
    assert LabelSelector().matches({})
    assert LabelSelector().matches(HAS_X)


def test_all_labels_and_all_expressions_must_match() -> None:
    selector = LabelSelector(
        match_labels={"team": "a"},
        match_expressions=(
            Requirement(key="k", operator="Exists"),
            Requirement(key="k", operator="NotIn", values=("other",)),
        ),
    )

    assert selector.matches({"team": "a", **HAS_X})
    assert not selector.matches({"team": "b", **HAS_X})
    assert not selector.matches(HAS_X)
    assert not selector.matches({"team": "a", **HAS_OTHER_X})
    assert not selector.matches({"team": "a"})


def test_an_empty_value_is_a_value() -> None:
    assert not LabelSelector(match_labels={"k": ""}).matches({})
    assert LabelSelector(match_labels={"k": ""}).matches({"k": ""})


def test_a_selector_is_sent_as_it_was_read() -> None:
    text = (
        b'{"matchLabels":{"a":"b"},'
        b'"matchExpressions":[{"key":"k","operator":"In","values":["x"]}]}'
    )

    selector = msgspec.json.decode(text, type=LabelSelector)

    assert msgspec.json.encode(selector) == text
    assert msgspec.json.encode(LabelSelector()) == b"{}"


@pytest.mark.parametrize("labels", [{}, {"k": "v"}, {"k": "w"}])
def test_an_unknown_operator_is_read_and_matches_nothing(labels: dict[str, str]) -> None:
    text = '{"key": "k", "operator": "Gt", "values": ["v"]}'

    assert not msgspec.json.decode(text, type=Requirement).matches(labels)


def test_a_missing_label_is_not_one_of_the_values_even_of_an_empty_one() -> None:
    assert not Requirement(key="k", operator="In", values=("",)).matches({})
    assert Requirement(key="k", operator="NotIn", values=("",)).matches({})
