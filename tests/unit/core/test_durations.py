"""Facts about `core.durations`."""

from datetime import timedelta

import pytest

from sharder.core.texts import parse_duration, parse_time


@pytest.mark.parametrize(("text", "seconds"), [("15", 15), ("0.5", 0.5), ("-1", -1), ("2m", 120)])
def test_a_time_without_a_unit_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == timedelta(seconds=seconds)
    assert parse_duration("0") == timedelta()


@pytest.mark.parametrize("text", ["", "inf", "nan", "1e3", "15 s", "two", "99999999999"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|292 years"):
        parse_time(text)
