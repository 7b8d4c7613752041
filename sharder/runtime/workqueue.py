"""A queue of keys to reconcile, now or later.

Level-based: a key names an object to reconcile, not an event.  A key is in work at most once and
queued at most once (the earliest time wins); a key that is added while in work is reconciled again
afterwards.

Source:
    client-go v0.36.3 `util/workqueue` (its defaults for back-off are 5 ms to 1000 s) and
    controller-runtime's outcome "requeue after".
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry

from sharder.core.errors import ApiError, Conflict, InvalidObject
from sharder.metrics.client_go import CLIENT_GO
from sharder.metrics.collectors import Labels, Metrics, Reading
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import Once

_SPARE_ENTRIES: Final = 16
"""Stale entries that a small queue can keep, so that `add` does not sort it each time."""

K = TypeVar("K", bound=Hashable)
Worker: TypeAlias = Callable[[K], Awaitable[float | None]]
"""Reconciles a key; returns the seconds until the next reconcile, or None to wait for `add`."""

_log = logging.getLogger(__name__)


class Failed(Exception):
    """Raised by a worker whose failure is reported already: only the back-off follows."""


class WorkQueue(Generic[K]):
    """Keys with their due times; not thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Rng,
        backoff: Backoff,
        name: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        """`metrics` shows the queue under its `name`."""
        self._name = name
        self._metrics = metrics or Metrics(CollectorRegistry(), CLIENT_GO)
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._due: dict[K, float] = {}
        # Entries with a time other than the one in `_due` are stale and skipped.
        self._order: list[tuple[float, int, K]] = []
        self._sequence = itertools.count()
        self._working: dict[K, float] = {}
        """The keys in work, and since when (monotonic seconds)."""
        self._failures: dict[K, int] = {}
        self._logged = Once[K]()
        self._changed = asyncio.Event()

    def add(self, key: K) -> None:
        """Reconcile `key` as soon as a worker is free; if `key` is in work, once more after it."""
        self.add_after(key, 0.0)

    def add_after(self, key: K, seconds: float) -> None:
        """Reconcile `key` in `seconds`, or earlier if it is already due earlier."""
        due = self._clock.monotonic() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        if key not in self._working:
            self._wait_for(key)

    def retry(self, key: K) -> None:
        """Reconcile `key` after its back-off, which doubles until `forget`."""
        self._metrics.counts["workqueue_retries_total"].add(self._name)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, self._backoff.delay(failures, self._rng))

    def forget(self, key: K) -> None:
        """Reset the back-off of `key`; it stays queued."""
        self._failures.pop(key, None)
        self._logged.forget(key)

    async def run(self, worker: Worker[K], *, concurrency: int) -> None:
        """Run `worker` on keys until cancelled, `concurrency` at a time.

        `Failed`, `ApiError` or `InvalidObject` lead to `retry`, any other error ends the run; an
        interrupted key is queued again.  Must not run twice at once.
        """
        slots = asyncio.Semaphore(concurrency)
        gauges: dict[Labels, Reading] = {
            ("workqueue_depth", self._name): self._depth,
            ("workqueue_longest_running_processor_seconds", self._name): self._longest,
        }
        with self._metrics.shown(gauges):
            async with asyncio.TaskGroup() as group:
                while True:
                    await slots.acquire()
                    key = await self._next()
                    task = group.create_task(self._work(key, worker), name=f"work on {key}")
                    task.add_done_callback(lambda _: slots.release())

    def _depth(self) -> int:
        """Return how many keys are due and not in work."""
        now = self._clock.monotonic()
        return sum(due <= now for due in list(self._due.values()))

    def _longest(self) -> float:
        """Return for how many seconds the oldest key is in work, 0 if no key is."""
        started = min(list(self._working.values()), default=None)
        return 0.0 if started is None else self._clock.monotonic() - started

    async def _work(self, key: K, worker: Worker[K]) -> None:
        settled, began = False, self._clock.monotonic()
        try:
            seconds = await worker(key)
            settled = True
            self.forget(key)
            if seconds is not None:
                self.add_after(key, seconds)
        except (ApiError, InvalidObject) as error:
            self._log_failure(key, error)
        except Failed:
            pass
        finally:
            worked = self._metrics.times["workqueue_work_duration_seconds"]
            worked.observe(self._clock.monotonic() - began, self._name)
            if not settled:
                self.retry(key)
            self._working.pop(key, None)
            if key in self._due:
                self._wait_for(key)

    def _log_failure(self, key: K, error: ApiError | InvalidObject) -> None:
        """Log an error once until it changes or is over; conflicts only at debug level."""
        fields = {"object": str(key), "error": str(error)}
        if isinstance(error, Conflict) or not self._logged.is_new(key, str(error)):
            _log.debug("reconcile failed, will retry", extra=fields)
        else:
            _log.warning("reconcile failed, will retry", extra=fields)

    async def _next(self) -> K:
        while True:
            self._changed.clear()
            while self._order and self._is_stale(self._order[0]):
                heapq.heappop(self._order)
            now = self._clock.monotonic()
            wait = self._order[0][0] - now if self._order else None
            if wait is not None and wait <= 0:
                due, _, key = heapq.heappop(self._order)
                del self._due[key]
                self._working[key] = now
                self._metrics.counts["workqueue_adds_total"].add(self._name)
                waited = self._metrics.times["workqueue_queue_duration_seconds"]
                waited.observe(now - due, self._name)
                return key
            await self._wake(wait)

    async def _wake(self, seconds: float | None) -> None:
        """Wait for an `add`, or for `seconds`."""
        if seconds is None:
            await self._changed.wait()
        else:
            await self._clock.wait(self._changed, seconds)

    def _wait_for(self, key: K) -> None:
        heapq.heappush(self._order, (self._due[key], next(self._sequence), key))
        self._changed.set()
        if len(self._order) > 2 * len(self._due) + _SPARE_ENTRIES:
            self._drop_stale()

    def _drop_stale(self) -> None:
        """Drop stale entries: an entry far in the future would otherwise stay until it is due."""
        live = (entry for entry in sorted(self._order, reverse=True) if not self._is_stale(entry))
        self._order = list({entry[2]: entry for entry in live}.values())
        heapq.heapify(self._order)

    def _is_stale(self, entry: tuple[float, int, K]) -> bool:
        due, _, key = entry
        return key in self._working or self._due.get(key) != due
