"""Facts about `sharder.core.leases.state`: what silence says of a Lease that is watched."""

from datetime import timedelta

import pytest

from sharder.core.api.lease import Lease
from sharder.core.leases.state import ObservedLease, ShardState
from sharder.core.names import STATE_LABEL, ZONE_LABEL
from tests.support.values import NOW, lease

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
    [
        (0, ShardState.DEAD, 75),
        (74, ShardState.DEAD, 1),
        (75, ShardState.ORPHANED, None),
    ],
)
def test_a_lease_without_its_holder_that_is_watched_is_judged_by_its_times(
    age: int, state: ShardState, wait: float | None
) -> None:
    observed, now = ObservedLease(lease(holder=""), since=100.0), NOW + age * SECOND

    assert observed.state(now, 100.0 + 500) is state
    assert observed.state_changes_in(now, 100.0 + 500) == wait


@pytest.mark.parametrize("age", [0, 75, 3600])
def test_a_lease_without_its_holder_is_kept_for_as_long_as_it_was_watched_to_be_dead(
    age: int,
) -> None:
    observed, now = ObservedLease(lease(holder=""), since=100.0), NOW + age * SECOND

    assert observed.kept_until() == 100.0 + 75
    assert observed.state_changes_in(now, 100.0 + 74) == 1


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
