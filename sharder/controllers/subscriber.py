"""Who is notified of changes of the cluster."""

from collections.abc import Callable
from dataclasses import dataclass

from sharder.core.names import ObjectRef, RingName


def _ignore(*_about: object) -> None:
    """Do nothing: the default of a callback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """The callbacks of one subscriber; they run on the event loop and must not block."""

    ring: Callable[[RingName], None] = _ignore
    """The ring, its members or its namespaces changed, or the ring was deleted."""
    steps: Callable[[RingName], None] = _ignore
    """The ring changed so that any of its objects can need another step."""
    scope: Callable[[RingName, frozenset[str]], None] = _ignore
    """Only the ring's namespaces changed; these were added to its scope."""
    lease: Callable[[ObjectRef], None] = _ignore
    """A Lease was written or deleted."""
