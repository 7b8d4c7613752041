"""Facts about `sharder.core.api.meta`: what a LabelSelector matches."""

from typing import Literal, TypeAlias

import pytest

from sharder.core.api.meta import Requirement

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
