"""Facts about `sharder.core.leases.state`: what a Lease says, and its silence if it is watched."""

from datetime import UTC, datetime, timedelta

import pytest

from sharder.core.api.lease import Lease
from sharder.core.leases.state import (
    DEFAULT_DURATION,
    ObservedLease,
    ShardState,
    duration_of,
    state_of,
)
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, ZONE_LABEL
from tests.support.values import NOW, SELF, lease

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("silence", "state", "wait"),
    [
        (0, ShardState.READY, 15),
        (14, ShardState.READY, 1),
        (15, ShardState.EXPIRED, 15),
        (29, ShardState.EXPIRED, 1),
        (30, ShardState.UNCERTAIN, None),
    ],
)
@pytest.mark.parametrize("skew", [-3600 * SECOND, -40 * SECOND, 40 * SECOND, 3600 * SECOND])
def test_a_held_lease_that_is_watched_is_judged_by_its_silence_whatever_its_times_say(
    silence: float, state: ShardState, wait: float | None, skew: timedelta
) -> None:
    observed = ObservedLease(lease(renewed=NOW + skew), since=100.0, renewed=True)

    assert observed.state(NOW, 100.0 + silence) is state
    assert wait is None or observed.state_changes_in(NOW, 100.0 + silence) == wait


@pytest.mark.parametrize(
    ("age", "state", "wait"),
    [(0, ShardState.DEAD, 75), (74, ShardState.DEAD, 1), (75, ShardState.ORPHANED, None)],
)
def test_a_lease_without_its_holder_is_judged_by_its_times_and_kept_while_it_was_watched(
    age: int, state: ShardState, wait: float | None
) -> None:
    observed, now = ObservedLease(lease(holder=""), since=100.0), NOW + age * SECOND

    assert observed.state(now, 100.0 + 500) is state
    assert observed.state_changes_in(now, 100.0 + 500) == wait
    assert observed.state_changes_in(now, 100.0 + 74) == 1
    assert observed.kept_until() == 100.0 + 75


@pytest.mark.parametrize(
    ("age", "silence", "state", "wait"),
    [
        (0, 0, ShardState.READY, 15),
        (20, 0, ShardState.EXPIRED, 10),
        (40, 14, ShardState.UNCERTAIN, 1),
        (-40, 15, ShardState.EXPIRED, 15),
    ],
)
def test_a_held_lease_that_was_not_seen_to_change_is_judged_by_its_times_too(
    age: int, silence: float, state: ShardState, wait: float
) -> None:
    observed, now = ObservedLease(lease(), since=100.0), NOW + age * SECOND

    assert observed.state(now, 100.0 + silence) is state
    assert observed.state_changes_in(now, 100.0 + silence) == wait


# Mere renewals

READY = {STATE_LABEL: "ready"}
RENEWED = lease(renewed=NOW + SECOND, labels=READY)


def watched(shown: Lease) -> ObservedLease:
    """A Lease that was seen to be renewed at 100."""
    return ObservedLease(shown, 100.0, renewed=True)


WATCHED = watched(lease(labels=READY))


def test_a_renewal_in_time_of_a_ready_shard_is_a_mere_renewal() -> None:
    assert WATCHED.is_merely_renewed(RENEWED, 100.0)
    assert WATCHED.is_merely_renewed(RENEWED, 114.9)


@pytest.mark.parametrize(
    ("before", "seen", "at"),
    [
        pytest.param(WATCHED, RENEWED, 115.0, id="it comes late"),
        pytest.param(ObservedLease(WATCHED.lease, 100.0), RENEWED, 101.0, id="it is the first"),
        pytest.param(WATCHED, lease(renewed=None, labels=READY), 101.0, id="it has no time"),
        pytest.param(WATCHED, lease(seconds=9, labels=READY), 101.0, id="another duration"),
        pytest.param(WATCHED, lease(acquired=NOW + SECOND, labels=READY), 101.0, id="acquired"),
        pytest.param(WATCHED, lease(holder="", labels=READY), 101.0, id="released"),
        pytest.param(WATCHED, lease(of="other", labels=READY), 101.0, id="another ring"),
        pytest.param(WATCHED, lease(labels={**READY, ZONE_LABEL: "a"}), 101.0, id="moved"),
        pytest.param(
            WATCHED, lease(created="2026-01-01T00:00:00Z", labels=READY), 101.0, id="new"
        ),
        pytest.param(
            watched(lease(labels={STATE_LABEL: "expired"})),
            lease(renewed=NOW + SECOND, labels={STATE_LABEL: "expired"}),
            101.0,
            id="it is shown as expired",
        ),
        pytest.param(
            watched(lease(seconds=0, labels=READY)),
            lease(seconds=0, renewed=NOW + SECOND, labels=READY),
            101.0,
            id="it is invalid",
        ),
    ],
)
def test_whatever_else_is_new_with_a_renewal_makes_it_more(
    before: ObservedLease, seen: Lease, at: float
) -> None:
    assert not before.is_merely_renewed(seen, at)


# The state table at its edges


TICK = timedelta(microseconds=1)
YEAR_1, YEAR_9999 = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
NOT_HELD = [None, "", SHARDER_IDENTITY, "another-client"]
INT32 = (-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("age", "state"),
    [
        (-10 * SECOND, ShardState.READY),
        (0 * SECOND, ShardState.READY),
        (15 * SECOND - TICK, ShardState.READY),
        (15 * SECOND, ShardState.EXPIRED),
        (30 * SECOND - TICK, ShardState.EXPIRED),
        (30 * SECOND, ShardState.UNCERTAIN),
        (3650 * 86400 * SECOND, ShardState.UNCERTAIN),
    ],
)
def test_a_held_lease_goes_from_ready_over_expired_to_uncertain(
    age: timedelta, state: ShardState
) -> None:
    assert state_of(lease(seconds=15), NOW + age) is state


@pytest.mark.parametrize("holder", NOT_HELD)
@pytest.mark.parametrize(
    ("age", "state"),
    [
        (-10 * SECOND, ShardState.DEAD),
        (0 * SECOND, ShardState.DEAD),
        (75 * SECOND - TICK, ShardState.DEAD),
        (75 * SECOND, ShardState.ORPHANED),
        (3650 * 86400 * SECOND, ShardState.ORPHANED),
    ],
)
def test_a_lease_without_its_holder_is_dead_and_a_minute_after_its_end_orphaned(
    holder: str | None, age: timedelta, state: ShardState
) -> None:
    assert state_of(lease(holder=holder, seconds=15), NOW + age) is state


@pytest.mark.parametrize("now", [YEAR_1, NOW, YEAR_9999])
@pytest.mark.parametrize("renewed", [YEAR_1, NOW, YEAR_9999])
@pytest.mark.parametrize("holder", [SELF, "", SHARDER_IDENTITY])
@pytest.mark.parametrize("seconds", [*INT32, -1, 0, 1, 3600, 7200])
def test_absurd_times_and_durations_are_judged_without_failing(
    now: datetime, renewed: datetime, holder: str, seconds: int
) -> None:
    absurd = lease(holder=holder, renewed=renewed, acquired=renewed, seconds=seconds)

    assert state_of(absurd, now) in ShardState
    assert (ObservedLease(absurd, 100.0).state_changes_in(now, 100.0) or 1) > 0


@pytest.mark.parametrize(
    ("seconds", "duration"),
    [
        (1, SECOND),
        (15, 15 * SECOND),
        (3600, 3600 * SECOND),
        (7200, 7200 * SECOND),
        (7201, DEFAULT_DURATION),
        (0, DEFAULT_DURATION),
        (-1, DEFAULT_DURATION),
        (None, DEFAULT_DURATION),
        *((extreme, DEFAULT_DURATION) for extreme in INT32),
    ],
)
def test_the_default_stands_in_for_a_duration_that_cannot_be(
    seconds: int | None, duration: timedelta
) -> None:
    assert duration_of(lease(seconds=seconds)) == duration


def test_the_default_stands_in_for_the_duration_of_an_incomplete_lease() -> None:
    assert duration_of(lease(seconds=60, renewed=None)) == DEFAULT_DURATION
    assert duration_of(lease(seconds=60, acquired=None)) == DEFAULT_DURATION
