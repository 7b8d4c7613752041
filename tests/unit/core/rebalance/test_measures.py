"""Facts about `sharder.core.rebalance.measures`."""

import math

from sharder.core.rebalance.measures import MAX_RATE, fragmentation, rates
from tests.support.values_rebalance import shard

BOTH = ("cpu", "memory")


def test_an_implausible_rate_is_capped() -> None:
    found = rates(BOTH, shard("a", cpu=1e-108), {"cpu": 1e117})

    assert found == [MAX_RATE, 0.0]
    assert math.isfinite(fragmentation([*found, 0.0]))
    assert fragmentation([]) == 0
