"""Which strategies leave objects where they are, and which follow the shards."""

from sharder.api.ring import PlacementSpec, StrategyName
from sharder.placement.placer import Placer
from sharder.placement.strategy import Layout


def sticks(placement: PlacementSpec) -> bool:
    """Tell whether the strategy leaves objects where they are, hence counts them."""
    return Placer(Layout(spec=placement, shards=(), available=())).sticks


def following() -> str:
    """Return the names of the strategies that follow, as advice lists them."""
    return ", ".join(n for n in StrategyName if not sticks(PlacementSpec(strategy=n)))


def sticking() -> str:
    """Return the names of the strategies that stick, as advice lists them."""
    return ", ".join(n for n in StrategyName if sticks(PlacementSpec(strategy=n)))
