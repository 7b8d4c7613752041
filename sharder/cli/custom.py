"""The strategies of other installed packages, imported only for a ring that uses them."""

from collections.abc import Mapping

from sharder.core.api.ring import StrategyName
from sharder.core.placement.strategy import CustomFunction


def custom_of(strategy: StrategyName) -> Mapping[str, CustomFunction]:
    """Return the installed strategies for a ring with the strategy Custom, none for others."""
    if strategy is not StrategyName.CUSTOM:
        return {}
    from sharder.config.strategies import installed  # noqa: PLC0415 - slow, and rarely needed

    return installed()
