"""Report drains that the shard does not acknowledge in time.

No object is taken by force: the shard might still work on it (docs/protocol.md, "Budgets").
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple, NoReturn

from sharder.controllers.movement.backlog import Backlog, Seen
from sharder.controllers.movement.ports import Ports
from sharder.controllers.permissions import read
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.ring import MovementSpec
from sharder.core.durations import parse_duration
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.movement.budget import Lately
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import Overdue
from sharder.runtime.event_loop import in_slices

OVERDUE = "DrainOverdue"
"""Reason of the Event."""

CHECK_SECONDS = 1.0
"""Seconds between two checks."""

MAX_EVENTS = 20
"""Limit on the Events of one ring in a minute; the other drains follow in the next minutes."""

COUNT_SECONDS = 10.0
"""Minimum seconds between two reports of a changed count, so that it does not change the status
all the time; the first overdue drain, and the end of the last one, are reported at once."""

_log = logging.getLogger(__name__)


class _Reported(NamedTuple):
    overdue: Overdue | None
    at: float


class OverdueDrains:
    """Checks all drains every second."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._overdue: dict[RingName, Overdue] = {}
        self._last = defaultdict[RingName, _Reported](lambda: _Reported(None, 0.0))
        self._events = defaultdict[RingName, Lately](Lately)
        self._recorded: dict[ObjectKey, float] = {}
        """Drains with an Event, by the time when they were first seen."""

    def of(self, ring: RingName) -> Overdue | None:
        """Return the overdue drains of a ring, None if there are none."""
        return self._overdue.get(ring)

    async def run(self, draining: Callable[[], Mapping[ResourceKey, Backlog]]) -> NoReturn:
        """Check the draining objects of each resource until cancelled."""
        while True:
            backlogs = draining()
            await self._record(await self._scan(backlogs))
            await self._ports.clock.sleep(CHECK_SECONDS)

    async def _scan(self, backlogs: Mapping[ResourceKey, Backlog]) -> list[tuple[ObjectKey, Seen]]:
        """Count overdue drains; return the drains that need an Event."""
        self._forget(backlogs)
        unreported = list[tuple[ObjectKey, Seen]]()
        counts, first = Counter[RingName](), dict[RingName, tuple[float, ObjectKey]]()
        async for resource_key, backlog in in_slices(backlogs.items(), self._ports.clock):
            snapshot = self._ports.cache.snapshot(resource_key.ring)
            if snapshot is None or resource_key.resource not in snapshot.roles:
                continue  # its series are hidden, or soon will be
            drains = _overdue_of(snapshot, resource_key, backlog)
            self._ports.metrics.show_overdue(*resource_key, drains=len(drains))
            counts[resource_key.ring] += len(drains)
            for key, seen in islice(drains, 1):
                oldest = (seen.since, key)
                first[resource_key.ring] = min(first.get(resource_key.ring, oldest), oldest)
            unreported += islice((d for d in drains if d[0] not in self._recorded), MAX_EVENTS)
        self._overdue = {
            ring: Overdue(count=counts[ring], first=f"{key.resource} {key.ref}")
            for ring, (_, key) in first.items()
        }
        for ring in counts.keys() | self._last.keys():
            self._notify(ring)
        return unreported

    def _forget(self, backlogs: Mapping[ResourceKey, Backlog]) -> None:
        """Forget drains that ended, even if the object is draining again."""
        self._recorded = {
            key: since
            for key, since in self._recorded.items()
            if key.resource_key in backlogs and backlogs[key.resource_key].since(key.ref) == since
        }
        rings = {resource_key.ring for resource_key in backlogs}
        for ring in self._events.keys() - rings:
            del self._events[ring]

    def _notify(self, ring: RingName) -> None:
        now, overdue, last = self._ports.clock.monotonic(), self.of(ring), self._last[ring]
        if overdue == last.overdue:
            if overdue is None:
                del self._last[ring]
            return
        if overdue is None or last.overdue is None or last.at + COUNT_SECONDS <= now:
            self._last[ring] = _Reported(overdue, now)
            self._ports.on_change(ring)

    async def _record(self, drains: list[tuple[ObjectKey, Seen]]) -> None:
        for key, seen in drains:
            events = self._events[key.ring]
            snapshot, now = (
                self._ports.cache.snapshot(key.ring),
                self._ports.clock.monotonic(),
            )
            if snapshot is None or events.wait(MAX_EVENTS, now) > 0:
                continue
            events.add(now)
            await self._warn(snapshot, key, seen)

    async def _warn(self, snapshot: RingSnapshot, key: ObjectKey, seen: Seen) -> None:
        try:
            resource = await self._ports.objects.find(key.resource)
            obj = await read(self._ports.objects, resource, key.ref)
        except (ApiError, InvalidObject) as error:
            fields = {"ring": snapshot.name, "object": str(key.ref), "error": str(error)}
            _log.debug("cannot read overdue drain", extra=fields)
            return
        self._recorded[key] = seen.since
        shard, seconds = snapshot.owner_of(obj), self._ports.clock.monotonic() - seen.since
        if shard is None or not snapshot.is_draining(obj):
            return
        text = (
            f"ring {snapshot.name}: shard {shard} has not acknowledged the drain "
            f"for {seconds:.0f}s (drainTimeout {snapshot.ring.spec.movement.drain_timeout}); "
            "inspect the shard, and restart it if it is stuck"
        )
        what = f"{key.resource} {key.ref}"
        fields = {"ring": snapshot.name, "object": what, "shard": shard}
        _log.warning("drain is overdue", extra=fields)
        await self._ports.recorder.warn(obj, OVERDUE, text)


def _overdue_of(
    snapshot: RingSnapshot, resource_key: ResourceKey, backlog: Backlog
) -> list[tuple[ObjectKey, Seen]]:
    seconds = timeout_of(snapshot.ring.spec.movement)
    if seconds <= 0:
        return []
    return [(ObjectKey(resource_key, ref), seen) for ref, seen in backlog.older_than(seconds)]


def timeout_of(spec: MovementSpec) -> float:
    """Return after how many seconds a drain is overdue; 0 means never, as for an invalid value."""
    try:
        return max(0.0, parse_duration(spec.drain_timeout).total_seconds())
    except ValueError:
        return 0.0
