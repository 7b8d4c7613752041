"""The promises about outages, for any outages: they are subtracted."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.leases.register import Membership
from sharder.core.leases.watch_health import LEASES, WatchHealth
from tests.support.values import A, lease

TWO_DURATIONS = 30

gaps = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 90)), max_size=6)
"""How long it was quiet before each outage, and how long the outage was, in seconds."""


def spans_of(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    spans, at = [], 0
    for quiet, long in found:
        spans.append((at + quiet, at + quiet + long))
        at += quiet + long
    return spans


def silent_at(spans: list[tuple[int, int]], died: int) -> float:
    """When a shard counts as dead that renewed its Lease last at `died`."""
    membership = Membership(0.0)
    for begin, end in [span for span in spans if span[1] <= died]:
        membership.note_outage(begin, end)
    membership.see(lease(A), died)
    for begin, end in [span for span in spans if span[1] > died]:
        membership.note_outage(begin, end)
    observed = membership.observed(lease(A).metadata.ref)
    assert observed is not None
    return observed.silent_at()


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=8))
def test_all_time_that_was_blind_counts_whatever_the_order(found: list[tuple[int, int]]) -> None:
    spans = sorted(((begin, begin + long) for begin, long in found), key=lambda span: span[1])
    blind = {second for begin, end in spans for second in range(begin, end)}

    assert silent_at(spans, -1) >= TWO_DURATIONS + len(blind) - 1


@given(gaps, st.integers(0, 200))
def test_a_shard_that_died_is_taken_two_durations_later_and_what_was_blind_since(
    found: list[tuple[int, int]], died: int
) -> None:
    spans = spans_of(found)
    blind = sum(end - begin for begin, end in spans if end > died)

    assert silent_at(spans, died) == died + TWO_DURATIONS + blind


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 3), st.booleans())
def test_from_a_failed_call_until_the_next_answer_all_time_counts_in_which_no_lease_was_seen(
    answers: list[bool], pause: int, sees: bool
) -> None:
    clock = SimpleNamespace(time=0.0)
    membership = Membership(0.0)
    health = WatchHealth([LEASES], lambda: clock.time, membership.note_outage)
    membership.see(lease(A), 0.0)
    failing_since, counted = None, set[int]()
    for number, answered in enumerate(answers):
        sent, clock.time = number * (pause + 1), number * (pause + 1) + 1
        if sees:
            health.saw(LEASES, is_list=False)
        health.called(sent, answered)
        if failing_since is None and not answered:
            failing_since = sent
        if failing_since is not None and not sees:
            counted |= set(range(failing_since, clock.time))
        failing_since = None if answered else failing_since

    observed = membership.observed(lease(A).metadata.ref)
    assert observed is not None
    assert observed.silent_at() == TWO_DURATIONS + len(counted)
