"""Facts about `core.durations`; the table is Go's own (time.ParseDuration, Duration.String)."""

from datetime import timedelta

import pytest

from sharder.core.durations import format_duration, parse_duration, parse_time


@pytest.mark.parametrize(("text", "seconds"), [("15", 15), ("0.5", 0.5), ("-1", -1), ("2m", 120)])
def test_a_time_without_a_unit_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == timedelta(seconds=seconds)
    assert parse_duration("0") == timedelta()


@pytest.mark.parametrize("text", ["", "inf", "nan", "1e3", "15 s", "two", "99999999999"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|292 years"):
        parse_time(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=15), "15s"),
        (timedelta(minutes=5), "5m0s"),
        (timedelta(hours=1, minutes=30), "1h30m0s"),
        (timedelta(hours=10), "10h0m0s"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(seconds=60.25), "1m0.25s"),
        (timedelta(milliseconds=100), "100ms"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(microseconds=7), "7µs"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_durations_are_written_as_go_writes_them(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text
