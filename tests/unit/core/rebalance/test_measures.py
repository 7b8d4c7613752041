"""Facts about `sharder.core.rebalance.measures`."""

import math

import pytest

from sharder.core.rebalance.loads import LoadedShard
from sharder.core.rebalance.measures import (
    MAX_RATE,
    Fragmentation,
    HighestRate,
    ObjectsPerWeight,
    fragmentation,
    has_capacity,
    mean_and_sigma,
    rates,
)
from tests.support.values_rebalance import A, plain, shard

BOTH = ("cpu", "memory")
MEASURES = (
    Fragmentation(resources=BOTH, threshold=0.15, min_gain=0.02),
    HighestRate(resources=BOTH, min_difference=0.1),
    ObjectsPerWeight(),
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


def test_nothing_has_neither_mean_nor_sigma() -> None:
    assert mean_and_sigma([]) == (0.0, 0.0)


def test_resources_without_capacity_are_left_out() -> None:
    found = LoadedShard(name=A, capacity={"cpu": 4.0, "memory": 0.0})

    assert rates(("cpu", "memory", "disk"), found, {"cpu": 1.0, "memory": 5.0}) == [0.25]


def test_a_change_is_thought_of_beside_the_load() -> None:
    assert rates(BOTH, shard("a"), {"cpu": 50.0}, {"cpu": -20.0, "memory": 10.0}) == [0.3, 0.1]


def test_an_implausible_rate_is_capped() -> None:
    found = rates(BOTH, shard("a", cpu=1e-108), {"cpu": 1e117})

    assert found == [MAX_RATE, 0.0]
    assert math.isfinite(fragmentation([*found, 0.0]))


def test_only_what_is_strictly_above_the_threshold_is_a_source() -> None:
    measure = Fragmentation(resources=BOTH, threshold=0.3, min_gain=0.02)

    assert not measure.is_source(0.2 + 0.1)
    assert measure.is_source(0.31)


@pytest.mark.parametrize(("after", "gains"), [(0.29, True), (0.1 + 0.2, False), (0.31, False)])
def test_a_source_has_to_become_better(after: float, gains: bool) -> None:
    assert MEASURES[0].gains(0.3, after) is gains
    assert MEASURES[1].gains(0.3, after) is gains


def test_without_a_least_gain_a_source_may_stay_as_it_is_but_not_become_worse() -> None:
    measure = Fragmentation(resources=BOTH, threshold=0.1, min_gain=0.0)

    assert measure.gains(0.3, 0.1 + 0.2)
    assert not measure.gains(0.3, 0.31)


@pytest.mark.parametrize(
    ("source", "target", "helps"),
    [
        ((0.3, 0.2), (0.0, 0.15), True),
        ((0.3, 0.2), (0.0, 0.16), False),
        ((0.3, 0.2), (0.25, 0.25), True),
        ((0.3, 0.2), (0.3, 0.3), False),
        ((0.3, 0.3), (0.0, 0.1), False),
        ((0.3, 0.2), (0.4, 0.35), True),
    ],
)
def test_a_target_ends_well_or_no_worse_and_the_worse_of_both_ends_better(
    source: tuple[float, float], target: tuple[float, float], helps: bool
) -> None:
    assert MEASURES[0].helps(source, target) is helps


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


def test_the_highest_rate_counts() -> None:
    assert MEASURES[1].of(shard("a"), {"cpu": 30.0, "memory": 60.0}) == 0.6


def test_objects_are_counted_by_weight() -> None:
    measure = ObjectsPerWeight()

    assert measure.of(plain("a", weight=2.0), {"objects": 5.0}, {"objects": -1.0}) == 2.0


@pytest.mark.parametrize(("target", "helps"), [((2, 3), True), ((3, 4), False)])
def test_by_number_the_target_does_not_end_above_the_source(
    target: tuple[float, float], helps: bool
) -> None:
    assert MEASURES[2].helps((4, 3), target) is helps
    assert MEASURES[2].gains(4, 3)


@pytest.mark.parametrize("measure", MEASURES[1:], ids=lambda measure: measure.noun)
def test_a_shard_without_load_gives_nothing_up(measure: HighestRate | ObjectsPerWeight) -> None:
    assert not measure.is_source(0.0)
    assert measure.is_source(0.5)


def test_only_the_measure_of_fragmentation_has_a_minimum_gain() -> None:
    assert [measure.min_gain for measure in MEASURES] == [0.02, 0.0, 0.0]


def test_measures_have_names() -> None:
    nouns = [measure.noun for measure in MEASURES]

    assert nouns == ["fragmentation", "rate", "number of objects by weight"]


def test_capacity_of_one_of_the_resources_is_capacity() -> None:
    assert has_capacity(shard("a", memory=0.0), BOTH)
    assert not has_capacity(shard("a", cpu=0.0, memory=0.0), BOTH)
    assert not has_capacity(plain("a"), BOTH)
