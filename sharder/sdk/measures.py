"""Measure the work on the objects of one main resource."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.metrics.shard import ShardMetrics
from sharder.runtime.clock import Clock
from sharder.shard.identity import Ownership


class Result(StrEnum):
    """How a reconcile ended, in the words of controller-runtime."""

    SUCCESS = "success"
    """It returned None, so the object waits for a change."""
    REQUEUE_AFTER = "requeue_after"
    """It returned a delay or raised `Requeue`."""
    ERROR = "error"
    """It raised another error."""
    CANCELLED = "cancelled"
    """The object left or drained, or the shard stopped; controller-runtime has no such result."""


class Measures:
    """Measures the work on the objects of one main resource."""

    def __init__(
        self,
        ring: RingName,
        resource: GroupResource,
        metrics: ShardMetrics,
        clock: Clock,
    ) -> None:
        self._ring = ring
        self._resource = resource
        self.metrics = metrics
        self._clock = clock
        self._known: set[ObjectRef] = set()
        self._arrived: dict[ObjectRef, float] = {}
        """When (monotonic seconds) the objects arrived that are not reconciled yet."""
        self._draining: dict[ObjectRef, float] = {}
        """When (monotonic seconds) the open drains were first seen."""

    @property
    def queue(self) -> str:
        """The name of the queue of reconciles."""
        return str(self._resource)

    @property
    def drain_queue(self) -> str:
        """The name of the queue of acknowledgements."""
        return f"{self._resource}-drains"

    @contextmanager
    def showing(self, objects: Callable[[], int], *, workers: int) -> Iterator[None]:
        """Show the controller with its objects and workers while the block runs."""
        self.metrics.show_controller(self._ring, self._resource, objects=objects, workers=workers)
        try:
            yield
        finally:
            self.metrics.hide_controller(self._ring, self._resource)

    def began(self, ref: ObjectRef) -> float:
        """Note that a reconcile begins, and return the time (monotonic seconds)."""
        now = self._clock.monotonic()
        if (arrived := self._arrived.pop(ref, None)) is not None:
            self.metrics.taken_over(self._ring, self._resource, now - arrived)
        self.metrics.began(self._resource, ref)
        return now

    def ended(self, result: Result, began: float) -> None:
        """Note that a reconcile has ended."""
        self.metrics.ended(self._resource, result, self._clock.monotonic() - began)

    def failed(self, *, retries: bool) -> None:
        """Note that a reconcile failed, and whether it is retried."""
        if retries:
            self.metrics.retried(self.queue)
        else:
            self.metrics.gave_up(self._resource)

    def name_taken(self) -> None:
        """Note that a reconcile failed because a child's name is taken."""
        self.metrics.name_taken(self._ring, self._resource)

    def see(self, ref: ObjectRef, ownership: Ownership) -> None:
        """Note the object's ownership that the watch has shown."""
        match ownership:
            case Ownership.OURS:
                self._draining.pop(ref, None)
                if ref not in self._known:
                    self._known.add(ref)
                    self._arrived[ref] = self._clock.monotonic()
            case Ownership.DRAINING:
                self._known.add(ref)
                self._arrived.pop(ref, None)
                self._draining.setdefault(ref, self._clock.monotonic())
            case Ownership.ELSEWHERE:
                self._forget(ref)

    def skipped(self, ref: ObjectRef) -> None:
        """Note that the object needs no reconcile: its first one, if any, is no takeover."""
        self._arrived.pop(ref, None)

    def acknowledged(self, ref: ObjectRef) -> None:
        """Note that the drain of the object was acknowledged."""
        if (seen := self._draining.get(ref)) is not None:
            self.metrics.drained(self._ring, self._resource, self._clock.monotonic() - seen)
        self._forget(ref)

    def _forget(self, ref: ObjectRef) -> None:
        self._known.discard(ref)
        self._arrived.pop(ref, None)
        self._draining.pop(ref, None)
