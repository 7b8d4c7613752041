"""Measurements of a shard's work, and the Protocol of the metrics that store them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.runtime.clock import Clock
from sharder.runtime.workqueue import QueueMetrics
from sharder.sdk.observability.blocked_loop import Activity
from sharder.sdk.reads.owned import Ownership
from sharder.sdk.retries import PermanentError, Requeue


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


class Stopped(Exception):
    """A reconcile ended early, because the shard must not act on the object any more."""


@dataclass(slots=True)
class Ending:
    """How one reconcile ended; cancelled until another result is known."""

    result: Result = Result.CANCELLED

    def returned(self, after: object) -> None:
        """Set the result by the return value of the author's function."""
        self.result = Result.SUCCESS if after is None else Result.REQUEUE_AFTER


class ShardMetrics(QueueMetrics, Protocol):
    """The metrics of one process; a controller has the name of its main resource."""

    def requested(self, method: str, code: str) -> None:
        """A request to the API server ended; `code` is the HTTP status, or `<error>` without."""
        ...

    def renewed(self, ring: RingName, *, succeeded: bool) -> None:
        """The shard tried to take or to renew its Lease."""
        ...

    def show_controller(
        self,
        ring: RingName,
        resource: GroupResource,
        *,
        objects: Callable[[], int],
        workers: int,
    ) -> None:
        """Show a running controller; another thread can call `objects`."""
        ...

    def hide_controller(self, ring: RingName, resource: GroupResource) -> None:
        """Stop showing the controller; no error if it is not shown."""
        ...

    def began(self, resource: GroupResource, ref: ObjectRef) -> None:
        """A reconcile of the object began; no metric has the object's name."""
        ...

    def ended(self, resource: GroupResource, result: str, seconds: float) -> None:
        """A reconcile has ended after `seconds`; `result` is a `Result`."""
        ...

    def gave_up(self, resource: GroupResource) -> None:
        """A reconcile raised `PermanentError`, so it is not retried."""
        ...

    def name_taken(self, ring: RingName, resource: GroupResource) -> None:
        """A reconcile failed because a child's name is taken."""
        ...

    def drained(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """A drain was acknowledged `seconds` after the shard first saw it."""
        ...

    def taken_over(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """The first reconcile of an object began `seconds` after the object arrived."""
        ...

    def render(self) -> tuple[bytes, str] | None:
        """Return all metrics in a Prometheus format and the content type; None without any."""
        ...


class Measures:
    """Measures the work on the objects of one main resource."""

    def __init__(
        self,
        ring: RingName,
        resource: GroupResource,
        metrics: ShardMetrics,
        clock: Clock,
        activity: Activity | None = None,
    ) -> None:
        self._ring = ring
        self._resource = resource
        self.metrics = metrics
        self.activity = activity or Activity()
        """The step that the event loop runs now."""
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

    @contextmanager
    def reconcile(self, ref: ObjectRef, ending: Ending) -> Iterator[None]:
        """Measure the reconcile in the block; if it raises, set the result of `ending`."""
        began = self._clock.monotonic()
        if (arrived := self._arrived.pop(ref, None)) is not None:
            self.metrics.taken_over(self._ring, self._resource, began - arrived)
        self.metrics.began(self._resource, ref)
        try:
            yield
        except Requeue:
            ending.result = Result.REQUEUE_AFTER
            raise
        except PermanentError:
            ending.result = Result.ERROR
            self.metrics.gave_up(self._resource)
            raise
        except Stopped:
            raise
        except Exception:
            ending.result = Result.ERROR
            self.metrics.retried(self.queue)
            raise
        finally:
            self.metrics.ended(self._resource, ending.result, self._clock.monotonic() - began)

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
