"""The promises about outages, for any outages: exactly those are subtracted."""

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from sharder.controllers.watch_health import LEASES, WatchHealth
from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.outages import Outages
from sharder.runtime.clock import SystemClock
from tests.support.values import lease

TWO_DURATIONS = 30

gaps = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 90)), max_size=6)
"""How long it was quiet before each outage, and how long the outage was, in seconds."""


class Clock(SystemClock):
    """A clock that a test sets."""

    time = 0.0

    @override
    def monotonic(self) -> float:
        return self.time


def spans_of(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    spans, at = [], 0
    for quiet, long in found:
        spans.append((at + quiet, at + quiet + long))
        at += quiet + long
    return spans


def noted(spans: list[tuple[int, int]]) -> Outages:
    outages = Outages()
    for begin, end in spans:
        outages = outages.noted(begin, end)
    return outages


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=8))
def test_time_that_was_blind_twice_counts_once_whatever_the_order(
    found: list[tuple[int, int]],
) -> None:
    spans = sorted(((begin, begin + long) for begin, long in found), key=lambda span: span[1])
    blind = {second for begin, end in spans for second in range(begin, end)}
    outages = noted(spans)

    for since in range(0, 260, 13):
        assert outages.put_off(since) - since == len([s for s in blind if s >= since])


@given(gaps, st.integers(0, 200))
def test_a_shard_that_died_is_taken_two_durations_later_and_what_was_blind_since(
    found: list[tuple[int, int]], died: int
) -> None:
    spans = spans_of(found)
    observed = ObservedLease(lease(), float(died))
    blind = sum(max(0, end - max(begin, died)) for begin, end in spans)

    adjusted = observed.anew(noted(spans).put_off(observed.since))

    assert adjusted.silent_at() == died + TWO_DURATIONS + blind


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 3))
def test_from_a_failed_call_until_the_next_answer_all_time_counts(
    answers: list[bool], pause: int
) -> None:
    clock = Clock()
    health, outages = WatchHealth([LEASES], clock), Outages()
    failing_since, counted = None, set[int]()
    for number, answered in enumerate(answers):
        sent, clock.time = number * (pause + 1), number * (pause + 1) + 1
        span = health.called(sent, answered=answered)
        outages = outages if span is None else outages.noted(*span)
        if failing_since is None and not answered:
            failing_since = sent
        if failing_since is not None:
            counted |= set(range(failing_since, clock.time))
        failing_since = None if answered else failing_since

    assert outages.put_off(0) == len(counted)


def test_the_view_of_a_process_that_was_paused_is_stale_until_it_has_caught_up() -> None:
    clock = Clock()
    health, stale = WatchHealth([LEASES], clock), dict[float, bool]()

    for clock.time in (2.9, 5.8):
        stale[clock.time] = health.is_stale()
        health.runs()
    for clock.time in (8.8, 9.7, 9.8):
        stale[clock.time] = health.is_stale()
        health.runs()

    assert stale == {2.9: False, 5.8: False, 8.8: True, 9.7: True, 9.8: False}
