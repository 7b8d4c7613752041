"""The strategies by name.  A new strategy is a module with a class, and a line in `STRATEGIES`."""

from collections.abc import Mapping
from typing import Final

from sharder.core.api.ring import StrategyName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.placement.strategies.consistent_hash import ConsistentHash
from sharder.core.placement.strategies.custom import Custom
from sharder.core.placement.strategies.least_loaded import LeastLoaded
from sharder.core.placement.strategies.rendezvous import BoundedLoad, Rendezvous
from sharder.core.placement.strategies.spread import Spread
from sharder.core.placement.strategy import Layout, Strategy

STRATEGIES: Final[Mapping[StrategyName, type[Strategy]]] = {
    StrategyName.CONSISTENT_HASH: ConsistentHash,
    StrategyName.RENDEZVOUS: Rendezvous,
    StrategyName.BOUNDED_LOAD: BoundedLoad,
    StrategyName.SPREAD: Spread,
    StrategyName.LEAST_LOADED: LeastLoaded,
    StrategyName.CUSTOM: Custom,
}

FOLLOWING: Final = tuple(name for name, strategy in STRATEGIES.items() if not strategy.sticks)


def built(
    layout: Layout, before: Strategy | None = None, hashed: HashRing | None = None
) -> Strategy:
    """Return the strategy for a layout.

    `before` is the strategy of the previous layout, and `hashed` is a ring that was built in
    pieces; both are used if they have the same shards.
    """
    name = layout.spec.strategy
    if name is StrategyName.CONSISTENT_HASH:
        known = before.ring if isinstance(before, ConsistentHash) else None
        return ConsistentHash(layout, hashed or known)
    return STRATEGIES[name](layout)
