"""Facts about `sharder.core.leases.state`: the state table at its edges."""

from datetime import UTC, datetime, timedelta

import pytest

from sharder.core.leases.state import (
    DEFAULT_DURATION,
    ObservedLease,
    ShardState,
    duration_of,
    state_of,
)
from sharder.core.names import SHARDER_IDENTITY
from tests.support.values import NOW, SELF, lease

TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
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
