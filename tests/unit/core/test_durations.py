"""Facts about `core.durations`; the table is Go's own (time.ParseDuration, Duration.String)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.durations import format_duration, parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("15s", 15),
        ("5m", 300),
        ("1h30m", 5400),
        ("100ms", 0.1),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("-1s", -1),
        ("+1s", 1),
        ("10us", 0.00001),
        ("10µs", 0.00001),
        ("10\N{GREEK SMALL LETTER MU}s", 0.00001),
        ("2000ns", 0.000002),
        ("3m1h", 3780),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "15", "s", "15 s", "1d", "5M", "1h 30m", "PT5M", "--1s", "- 1s", ".", ".s", "1e3s", "٣s"],
)
def test_an_invalid_go_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "seconds"), [("15", 15), ("0.5", 0.5), ("-1", -1), ("2m", 120)])
def test_a_time_without_a_unit_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "inf", "nan", "1e3", "15 s", "two", "99999999999"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|292 years"):
        parse_time(text)


def test_a_duration_that_go_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="292 years"):
        parse_duration("9999999h")


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


@given(st.timedeltas(min_value=timedelta(days=-99999), max_value=timedelta(days=99999)))
def test_what_is_written_is_read_again(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
