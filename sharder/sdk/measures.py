"""Measure the work on the objects of one main resource."""

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
    """Measures how long objects wait for their first reconcile, and drains for their end."""

    def __init__(
        self, ring: RingName, resource: GroupResource, metrics: ShardMetrics, clock: Clock
    ) -> None:
        self.ring, self.resource, self.metrics = ring, resource, metrics
        self._clock = clock
        self._arrived: dict[ObjectRef, float | None] = {}
        """When (monotonic seconds) each object arrived, None if nothing waits for it any more."""
        self._draining: dict[ObjectRef, float] = {}
        """When (monotonic seconds) the open drains were first seen."""

    def began(self, ref: ObjectRef) -> float:
        """Note that a reconcile begins, and return the time (monotonic seconds)."""
        now, arrived = self._clock.monotonic(), self._arrived.get(ref)
        if arrived is not None:
            self.metrics.taken_over(self.ring, self.resource, now - arrived)
        self.skipped(ref)
        self.metrics.began(self.resource)
        return now

    def ended(self, result: Result, began: float) -> None:
        """Note that a reconcile has ended."""
        self.metrics.ended(self.resource, result, self._clock.monotonic() - began)

    def see(self, ref: ObjectRef, ownership: Ownership) -> None:
        """Note the object's ownership that the watch has shown."""
        match ownership:
            case Ownership.OURS:
                self._draining.pop(ref, None)
                self._arrived.setdefault(ref, self._clock.monotonic())
            case Ownership.DRAINING:
                self.skipped(ref)
                self._draining.setdefault(ref, self._clock.monotonic())
            case Ownership.ELSEWHERE:
                self._arrived.pop(ref, None)
                self._draining.pop(ref, None)

    def skipped(self, ref: ObjectRef) -> None:
        """Note that the object needs no reconcile: its first one, if any, is no takeover."""
        self._arrived[ref] = None

    def acknowledged(self, ref: ObjectRef) -> None:
        """Note that the drain of the object was acknowledged."""
        if (seen := self._draining.get(ref)) is not None:
            self.metrics.drained(self.ring, self.resource, self._clock.monotonic() - seen)
        self.see(ref, Ownership.ELSEWHERE)
