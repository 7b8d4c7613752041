"""Facts about `sharder.core.rebalance.measures`."""

import math

import pytest

from sharder.core.rebalance.measures import (
    MAX_RATE,
    Fragmentation,
    Fullness,
    fragmentation,
    rates,
)
from tests.support.values_rebalance import shard

BOTH = ("cpu", "memory")
MEASURES = (
    Fragmentation(resources=BOTH, threshold=0.15, min_gain=0.02),
    Fullness(resources=BOTH, min_difference=0.1),
)


@pytest.mark.parametrize(
    ("of_rates", "expected"),
    [
        ((), 0),
        ((0.7,), 0),
        ((0.9, 0.5), 0.2),
        ((0.1, 0.9), 0.4),
        ((1, 0, 0), 0.471404520791),
    ],
)
def test_fragmentation_is_the_deviation_of_rates(
    of_rates: tuple[float, ...], expected: float
) -> None:
    assert fragmentation(of_rates) == pytest.approx(expected)


def test_an_implausible_rate_is_capped() -> None:
    found = rates(BOTH, shard("a", cpu=1e-108), {"cpu": 1e117})

    assert found == [MAX_RATE, 0.0]
    assert math.isfinite(fragmentation([*found, 0.0]))


def test_without_a_least_gain_a_source_may_stay_as_it_is_but_not_become_worse() -> None:
    measure = Fragmentation(resources=BOTH, threshold=0.1, min_gain=0.0)

    assert measure.gains(0.3, 0.1 + 0.2)
    assert not measure.gains(0.3, 0.31)


@pytest.mark.parametrize(
    ("source", "target", "helps"),
    [
        ((0.5, 0.4), (0.1, 0.2), True),
        ((0.5, 0.4), (0.4, 0.49), True),
        ((0.5, 0.4), (0.4, 0.5), False),
        ((0.5, 0.4), (0.6, 0.7), False),
        ((0.5, 0.49), (0.1, 0.11), True),
        ((0.5, 0.45), (0.41, 0.46), False),
    ],
)
def test_the_fuller_of_two_that_differ_has_to_become_less_full(
    source: tuple[float, float], target: tuple[float, float], helps: bool
) -> None:
    assert MEASURES[1].helps(source, target) is helps
