"""Facts about `sharder.core.texts`: quantities and durations as numbers."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest

from sharder.core.texts import (
    MAX_LENGTH,
    MAX_PARTS,
    parse_duration,
    parse_time,
    quantities,
    quantity,
)


def test_a_suffix_of_no_quantity_is_named() -> None:
    with pytest.raises(ValueError, match="'1Q' has the unknown suffix 'Q'"):
        quantity("1Q")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not of the form resource=quantity"),
        ("cpu", "'cpu' is not of the form resource=quantity"),
        ("cpu=1,", "'' is not of the form resource=quantity"),
        ("=1", "'=1' is not of the form resource=quantity"),
        ("c pu=1", "'c pu=1' is not of the form resource=quantity"),
        ("cpu=1, cpu=2", "'cpu' is listed twice"),
        ("cpu=1=2", "'1=2' is not a quantity such as 4, 500m or 8Gi"),
        ("cpu=", "'' is not a quantity such as 4, 500m or 8Gi"),
    ],
)
def test_the_part_of_a_list_that_cannot_be_understood_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        quantities(text)


def test_a_list_that_is_too_long_is_not_even_looked_at() -> None:
    longest = "cpu=1".ljust(MAX_LENGTH)

    assert quantities(longest) == {"cpu": Decimal(1)}
    with pytest.raises(ValueError, match="a list of quantities has at most 4096 characters"):
        quantities(longest + " ")


def test_a_list_has_a_limited_number_of_parts() -> None:
    most = [f"r-{number}=1" for number in range(MAX_PARTS)]

    assert len(quantities(",".join(most))) == MAX_PARTS
    with pytest.raises(ValueError, match="a list of quantities has at most 32 parts"):
        quantities(",".join([*most, "cpu=1"]))


# Durations


@pytest.mark.parametrize(("text", "seconds"), [("15", 15), ("0.5", 0.5), ("-1", -1), ("2m", 120)])
def test_a_time_without_a_unit_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == timedelta(seconds=seconds)
    assert parse_duration("0") == timedelta()


@pytest.mark.parametrize("text", ["", "inf", "nan", "1e3", "15 s", "two", "99999999999"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|292 years"):
        parse_time(text)
