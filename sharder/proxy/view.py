"""What the controller sees of the cluster: the objects of this shard, and a Lock that it holds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sharder.core.names import GroupResource
from sharder.proxy.arrivals import Arrivals
from sharder.proxy.election import Lock
from sharder.proxy.gate import Gate
from sharder.proxy.health import Health
from sharder.proxy.streams import Streams


def _none() -> float:
    return 0.0


@dataclass(slots=True, kw_only=True)
class View:
    """The parts that all requests share."""

    gate: Gate
    streams: Streams
    arrivals: Arrivals
    lock: Lock
    health: Health | None = None
    """Of a controller that elects no leader."""
    left: Callable[[], float] = _none
    """Returns for how many seconds this shard certainly holds its Lease."""
    shown: set[GroupResource] = field(default_factory=set)
    """The resources of which this proxy has shown a list or a stream to the controller."""

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
        """Let no write pass; the controller ends, and the next one has to see all objects."""
        self.left = _none
        self.lock.lose()
        self.gate.here.forget_delivered()
        self.shown.clear()

    def labels_of(self, resource: GroupResource) -> str:
        """Return the labels of the objects of a resource of the ring that the controller sees."""
        identity = self.gate.identity
        leaves = f",!{identity.drain_label}" if self.gate.is_main(resource) else ""
        return f"{identity.selector}{leaves}"
