"""Who is told what has changed in the world."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sharder.api.lease import Lease
from sharder.names import ObjectRef, RingName


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Who wants to know that something changed; called on the event loop, must not block."""

    ring: Callable[[RingName], None]
    """The ring or its members changed, or it is gone; its namespaces may have, too."""
    steps: Callable[[RingName], None]
    """The same, and any object of the ring may need another step."""
    scope: Callable[[RingName, frozenset[str]], None]
    """Nothing but the ring's namespaces changed; these have come into its scope."""
    lease: Callable[[ObjectRef], None]
    """A Lease was written, or is gone."""


class Subscribers:
    """All of them, in the order in which they came."""

    def __init__(self) -> None:
        self._all: list[Subscriber] = []

    @contextmanager
    def adding(self, subscriber: Subscriber) -> Iterator[None]:
        """Tell `subscriber` too while the body runs."""
        self._all.append(subscriber)
        try:
            yield
        finally:
            self._all.remove(subscriber)

    def tell_ring(self, name: RingName, *, steps: bool) -> None:
        """Tell that the ring has changed, and with `steps` that objects may need another step."""
        for subscriber in self._all:
            subscriber.ring(name)
            if steps:
                subscriber.steps(name)

    def tell_scope(self, name: RingName, come: frozenset[str]) -> None:
        """Tell that the ring selects other namespaces, `come` among them, and is else the same."""
        for subscriber in self._all:
            subscriber.scope(name, come)

    def tell_leases(self, leases: Iterable[Lease]) -> None:
        """Tell of Leases that were written, or are gone."""
        for subscriber in self._all:
            for lease in leases:
                subscriber.lease(lease.metadata.ref)
