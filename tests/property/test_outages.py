"""The promises of `core.leases.outages`, for any outages: exactly those are subtracted."""

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.outages import OUTAGE_SECONDS, Attempts, Outages
from tests.support.values import lease

TWO_DURATIONS = 30

gaps = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 90)), max_size=6)
"""How long it was quiet before each outage, and how long the outage was, in seconds."""


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
def test_failures_count_whole_once_they_are_an_outage_and_alone_their_own_time(
    answers: list[bool], pause: int
) -> None:
    attempts, outages, run = Attempts(), Outages(), list[int]()
    counted = set[int]()
    for number, answered in enumerate(answers):
        sent, now = number * (pause + 1), number * (pause + 1) + 1
        span = attempts.blind(sent, now, answered=answered)
        attempts = attempts.after(sent, answered=answered)
        outages = outages if span is None else outages.noted(*span)
        counted |= set() if answered else {sent}
        run = [*run, sent]
        if now - run[0] >= OUTAGE_SECONDS and (len(run) > 1 or not answered):
            counted |= set(range(run[0], now))
        run = [] if answered else run

    assert outages.put_off(0) == len(counted)
