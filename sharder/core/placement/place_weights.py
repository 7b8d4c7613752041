"""Weighted choice from a list of shards: a later shard is more likely.

Source: OpenShift v2 (openshift/origin-server, select_best_fit_node_impl).  Its random number comes
from the object's key here, so that all replicas make the same choice.
"""

from bisect import bisect_right


def weights(many: int) -> range:
    """Return the weights of `many` places in a list.

    The first place has half the number of places, rounded up, and each further place has one more.
    So the last one is chosen up to three times as often as the first.
    """
    first = (many + 1) // 2
    return range(first, first + many)


def weight_of_first(some: int, many: int) -> int:
    """Return the sum of the weights of the first `some` of `many` places."""
    return some * weights(many).start + some * (some - 1) // 2


def place_at(position: int, many: int) -> int:
    """Return the place, of `many`, that a number below the sum of their weights selects."""
    places = range(1, many + 1)
    return bisect_right(places, position, key=lambda some: weight_of_first(some, many))
