"""Facts about `sharder.core.errors`: the tree says who has to act."""

import re

import pytest

from sharder.core import errors
from sharder.core.errors import (
    ApiError,
    ConfigError,
    Expired,
    InvalidObject,
    LeaseLost,
    SharderError,
)


@pytest.mark.parametrize("error", [ConfigError, InvalidObject, ApiError, LeaseLost])
def test_every_error_of_ours_is_caught_by_the_root(error: type[SharderError]) -> None:
    assert issubclass(error, SharderError)


@pytest.mark.parametrize(
    "name", ["Conflict", "NotFound", "Expired", "Rewound", "Forbidden", "Rejected", "Unavailable"]
)
def test_every_refusal_of_the_api_server_is_an_api_error(name: str) -> None:
    assert issubclass(getattr(errors, name), ApiError)


def test_no_error_is_caught_together_with_a_sibling() -> None:
    roots = {SharderError, ApiError, Expired}
    tree = {e for e in vars(errors).values() if isinstance(e, type)} - roots

    assert all(not issubclass(one, other) for one in tree for other in tree - {one})


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    defined = {name for name, e in vars(errors).items() if isinstance(e, type)}

    assert drawn == defined - {"SharderError"}
