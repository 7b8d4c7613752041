"""Facts about `sharder.core.rebalance.measures`."""

import math

from sharder.core.rebalance.measures import (
    MAX_RATE,
    Fragmentation,
    fragmentation,
    rates,
)
from tests.support.values_rebalance import shard

BOTH = ("cpu", "memory")


def test_an_implausible_rate_is_capped() -> None:
    found = rates(BOTH, shard("a", cpu=1e-108), {"cpu": 1e117})

    assert found == [MAX_RATE, 0.0]
    assert math.isfinite(fragmentation([*found, 0.0]))
    assert fragmentation([]) == 0


def test_without_a_least_gain_a_source_may_stay_as_it_is_but_not_become_worse() -> None:
    measure = Fragmentation(resources=BOTH, threshold=0.1, min_gain=0.0)

    assert measure.gains(0.3, 0.1 + 0.2)
    assert not measure.gains(0.3, 0.31)
