"""The strategies by name; what a new one needs besides is listed (docs/architecture.md)."""

from collections.abc import Callable, Mapping
from typing import Final

from sharder.core.api.ring import StrategyName
from sharder.core.placement.strategies.consistent_hash import ConsistentHashing
from sharder.core.placement.strategies.custom import Custom
from sharder.core.placement.strategies.least_loaded import LeastLoaded
from sharder.core.placement.strategies.rendezvous import BoundedLoad, Rendezvous
from sharder.core.placement.strategies.spread import Spread
from sharder.core.placement.strategy import Layout, Strategy

STRATEGIES: Final[Mapping[StrategyName, Callable[[Layout], Strategy]]] = {
    StrategyName.CONSISTENT_HASH: ConsistentHashing,
    StrategyName.RENDEZVOUS: Rendezvous,
    StrategyName.BOUNDED_LOAD: BoundedLoad,
    StrategyName.SPREAD: Spread,
    StrategyName.LEAST_LOADED: LeastLoaded,
    StrategyName.CUSTOM: Custom,
}


def built(layout: Layout, before: Strategy | None = None) -> Strategy:
    """Return the strategy of a layout; `before` is that of the layout until now."""
    name = layout.spec.strategy
    if name is StrategyName.CONSISTENT_HASH and isinstance(before, ConsistentHashing):
        return ConsistentHashing(layout, before)
    return STRATEGIES[name](layout)
