"""What the controller sees of the cluster: the objects of this shard, and a Lock that it holds."""

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from sharder.core.api.meta import ObjectMeta
from sharder.core.names import GroupResource
from sharder.proxy.arrivals import Arrivals
from sharder.proxy.election import Lock
from sharder.proxy.health import Health
from sharder.proxy.streams import Selectors, Sight, Streams
from sharder.proxy.write_gate import Refused, WriteGate
from sharder.shard.identity import Ownership

MAX_OUTSIDE: Final = 500
"""Resources outside the ring that are told: the Lease names them in each renewal, which fails if
its annotations exceed 256 KiB."""
MAX_SHOWN: Final = 1000
"""Lists and watches of main objects that are remembered; after others, a watch lists again."""

_log = logging.getLogger(__name__)


def _none() -> float:
    return 0.0


def _sights() -> deque[Sight]:
    return deque(maxlen=MAX_SHOWN)


@dataclass(slots=True, kw_only=True)
class View:
    """The parts that all requests share."""

    gate: WriteGate
    streams: Streams
    arrivals: Arrivals
    lock: Lock
    health: Health | None = None
    """Of a controller that elects no leader."""
    left: Callable[[], float] = _none
    """Returns for how many seconds this shard certainly holds its Lease."""
    shown: deque[Sight] = field(default_factory=_sights)
    """What this view has shown last of the main resources, in a list or a stream."""

    read_others: frozenset[GroupResource] = frozenset()
    """Resources of the ring of which the controller sees more than what this shard has: those of
    others by get, or if they are controlled, what no object of the ring controls."""
    outside: set[GroupResource] = field(default_factory=set)
    """What the controller has watched besides the resources of the ring."""

    def absence(self, seconds: float) -> str:
        """Return why the controller does not work for `seconds`, empty if it does."""
        if self.lock.is_late(seconds):
            return f"the controller has not renewed its Lease for {seconds:g} s"
        if self.health is not None and self.health.is_late(seconds):
            return f"the controller's health endpoint has not answered for {seconds:g} s"
        for resource in self.gate.kinds.values():
            if self.streams.is_unwatched(resource, seconds):
                return f"the controller has not watched {resource} for {seconds:g} s"
        return ""

    def open(self, left: Callable[[], float]) -> None:
        """Let requests pass while the shard holds its Lease, for `left()` more seconds."""
        self.left = left

    def close(self) -> None:
        """Let no write pass, and end all watches: the next process has to see all objects."""
        self.left = _none
        self.lock.lose()
        self.gate.here.forget_delivered()
        self.shown = _sights()
        self.streams.end()

    async def ready(
        self,
        before: deque[Sight],
        resource: GroupResource,
        shown: Collection[ObjectMeta],
        gone: Collection[ObjectMeta] = (),
    ) -> None:
        """Return when the controller can be shown objects, and that others are gone.

        `before` is `shown` as it was when the controller asked: another view has its own.

        Raises:
            Refused: the view has ended since.
        """
        await self.arrivals.ready(resource, shown, gone)
        if self.shown is not before:
            raise Refused(503, "this shard has lost its Lease meanwhile; list again")

    def show(self, sight: Sight) -> None:
        """Record that the controller sees these main objects from now on."""
        if not self.has_shown(sight):
            self.shown.append(sight)

    def has_shown(self, sight: Sight) -> bool:
        """Return whether the controller has seen these main objects, or more of them."""
        namespaces, selectors = {"", sight.namespace}, {Selectors(), sight.selectors}
        return any(
            Sight(sight.resource, *more) in self.shown for more in product(namespaces, selectors)
        )

    def watches(self, resource: GroupResource) -> None:
        """Record what the controller watches outside the ring, and log it once."""
        if resource not in self.outside and len(self.outside) < MAX_OUTSIDE:
            self.outside.add(resource)
            _log.info(
                "the controller watches %s, which is not of the ring: every shard handles it",
                resource,
            )

    def labels_of(self, resource: GroupResource) -> str:
        """Return the labels of the objects of a resource of the ring that the controller sees.

        Empty: all, without those of `is_hidden`.
        """
        identity = self.gate.identity
        if self.gate.is_main(resource):
            return f"{identity.selector},!{identity.drain_label}"
        return "" if resource in self.read_others else identity.selector

    def is_hidden(self, child: ObjectMeta) -> bool:
        """Return whether a main object on another shard controls a child."""
        ownership = self.gate.identity.ownership_of(child)
        return ownership is Ownership.ELSEWHERE and self.gate.parent(child.controller) is not None
