"""Facts about `sharder.runtime.backoff`."""

import pytest

from sharder.runtime.backoff import Backoff, failures_after
from sharder.sdk.testing.fake_clock import FixedRng

BACKOFF = Backoff(base=1.0, cap=30.0)


@pytest.mark.parametrize(("failures", "whole"), [(1, 1), (2, 2), (5, 16), (6, 30), (5000, 30)])
def test_the_delay_doubles_up_to_the_cap_and_half_of_it_is_chance(
    failures: int, whole: float
) -> None:
    delays = [BACKOFF.delay(failures, FixedRng(chance)) for chance in (0.0, 0.5, 1.0)]

    assert delays == [whole / 2, whole * 0.75, whole]


@pytest.mark.parametrize(("lasted", "failures"), [(0, 4), (119.9, 4), (120, 1)])
def test_what_went_well_for_two_minutes_fails_for_the_first_time(
    lasted: float, failures: int
) -> None:
    assert failures_after(3, lasted) == failures
