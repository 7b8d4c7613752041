"""The strategies of other installed packages, for rings with the strategy Custom."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sharder.core.api.ring import StrategyName
from sharder.core.placement.strategy import CustomFunction

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "sharder.placement"

_log = logging.getLogger(__name__)


def installed() -> Mapping[str, CustomFunction]:
    """Return the functions of the group `sharder.placement`, by the names of their entry points.

    This imports modules of other packages.  A strategy that cannot be used is skipped with a
    warning.  If two entry points have the same name, the first on the path counts, as for modules.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    functions: dict[str, CustomFunction] = {}
    seen: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        first = seen.setdefault(entry.name, entry)
        if first is not entry:
            _warn(entry, f"the name is already used by {first.value}")
            continue
        try:
            function = entry.load()
        except Exception as error:  # noqa: BLE001 - a foreign module can raise anything
            _warn(entry, f"{type(error).__name__}: {error}")
            continue
        if callable(function):
            functions[entry.name] = function
        else:
            _warn(entry, f"a {type(function).__name__} is not callable")
    return functions


def custom_of(strategy: StrategyName) -> Mapping[str, CustomFunction]:
    """Return the installed strategies for a ring with the strategy Custom, none for others."""
    return installed() if strategy is StrategyName.CUSTOM else {}


def _warn(entry: "EntryPoint", why: str) -> None:
    sentence = f"{entry.name} = {entry.value}: {why}"
    _log.warning("skipping an installed strategy", extra={"why": sentence})
