"""What a shard measures of its work, and where the measurements go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.runtime.clock import Clock
from sharder.runtime.workqueue import QueueMetrics
from sharder.sdk.observability.watchdog import Activity
from sharder.sdk.reads.owned import Ownership
from sharder.sdk.retries import PermanentError, Requeue


class Result(StrEnum):
    """How a reconcile ended, in the words of controller-runtime."""

    SUCCESS = "success"
    """It waits for a change."""
    REQUEUE_AFTER = "requeue_after"
    """It asked for another time."""
    ERROR = "error"
    """It raised."""
    CANCELLED = "cancelled"
    """The object had to go, or the shard ended; controller-runtime has no word for this."""


@dataclass(slots=True)
class Ending:
    """The end of one reconcile; cancelled until something else is known."""

    result: Result = Result.CANCELLED

    def returned(self, after: object) -> None:
        """Note what the author's function returned."""
        self.result = Result.SUCCESS if after is None else Result.REQUEUE_AFTER


class ShardMetrics(QueueMetrics, Protocol):
    """Measurements of one process; a controller is named by its main resource."""

    def requested(self, method: str, code: str) -> None:
        """A request to the API server was answered with this HTTP status."""
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
        """Show a controller that works; another thread may ask for its objects."""
        ...

    def hide_controller(self, ring: RingName, resource: GroupResource) -> None:
        """Show it no more; no error if it is not shown."""
        ...

    def began(self, resource: GroupResource) -> None:
        """A reconcile began."""
        ...

    def ended(self, resource: GroupResource, result: str, seconds: float) -> None:
        """A reconcile that began so many seconds ago has ended."""
        ...

    def gave_up(self, resource: GroupResource) -> None:
        """A reconcile raised `PermanentError`, so it is not retried."""
        ...

    def drained(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """A drain was acknowledged so many seconds after the shard saw it."""
        ...

    def taken_over(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """An object's first reconcile began so many seconds after the shard saw it as its own."""
        ...

    def render(self) -> tuple[bytes, str] | None:
        """Return all metrics as Prometheus reads them, and their content type; None without."""
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
        """What the event loop does now."""
        self._clock = clock
        self._known: set[ObjectRef] = set()
        self._arrived: dict[ObjectRef, float] = {}
        """Objects that were not reconciled yet, and when (monotonic seconds) they came."""
        self._draining: dict[ObjectRef, float] = {}
        """Open drains, and when they were seen."""

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
        """Show the objects and the workers of a shard that works."""
        self.metrics.show_controller(self._ring, self._resource, objects=objects, workers=workers)
        try:
            yield
        finally:
            self.metrics.hide_controller(self._ring, self._resource)

    @contextmanager
    def reconcile(self, ref: ObjectRef, ending: Ending) -> Iterator[None]:
        """Measure a reconcile, and complete its `ending`."""
        began = self._clock.monotonic()
        if (arrived := self._arrived.pop(ref, None)) is not None:
            self.metrics.taken_over(self._ring, self._resource, began - arrived)
        self.metrics.began(self._resource)
        try:
            yield
        except Requeue:
            ending.result = Result.REQUEUE_AFTER
            raise
        except PermanentError:
            ending.result = Result.ERROR
            self.metrics.gave_up(self._resource)
            raise
        except Exception:
            ending.result = Result.ERROR
            self.metrics.retried(self.queue)
            raise
        finally:
            self.metrics.ended(self._resource, ending.result, self._clock.monotonic() - began)

    def see(self, ref: ObjectRef, ownership: Ownership) -> None:
        """Note the object's ownership as the watch shows it."""
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

    def acknowledged(self, ref: ObjectRef) -> None:
        """Note that the drain of the object was acknowledged."""
        if (seen := self._draining.get(ref)) is not None:
            self.metrics.drained(self._ring, self._resource, self._clock.monotonic() - seen)
        self._forget(ref)

    def _forget(self, ref: ObjectRef) -> None:
        self._known.discard(ref)
        self._arrived.pop(ref, None)
        self._draining.pop(ref, None)
