"""Weighted choice among shards in a row: the further back, the likelier.

Source: OpenShift v2 (openshift/origin-server, select_best_fit_node_impl); the number that it rolls
comes from the object's key here, so that everybody who asks gets the same answer.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Final, TypeAlias

from xxhash import xxh3_64_intdigest

from sharder.placement.demand import Demand

Draw: TypeAlias = Callable[[Demand, int], int]
"""(object, total) → a number from 0 to below `total`, which is at least 1."""

_SEED: Final = 0x67656172
"""Keeps what is drawn independent of the rankings, which hash the key without one ("gear")."""


def draw_by_hash(demand: Demand, total: int) -> int:
    """Return a number that the object's key alone decides, each equally likely."""
    return xxh3_64_intdigest(demand.key.encode(), seed=_SEED) * total >> 64


def weights(many: int) -> range:
    """Return the weights of so many in a row.

    The first has half their number, rounded up, and each one more than the one before it; so the
    last is chosen up to three times as often as the first.
    """
    first = (many + 1) // 2
    return range(first, first + many)


def place_at(position: int, many: int) -> int:
    """Return whose place in a row of `many` a number below the sum of the weights falls in."""
    return bisect_right(list(accumulate(weights(many))), position)
