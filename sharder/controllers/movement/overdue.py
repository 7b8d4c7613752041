"""Report drains that the shard does not acknowledge in time.

No object is taken by force: the shard might still work on it (docs/protocol.md, "Budgets").
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeAlias

from sharder.controllers.movement.backlog import Backlog, Seen
from sharder.controllers.permissions import read
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.ring import MovementSpec
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.names import RingName
from sharder.core.quantities import parse_duration
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import Troubled
from sharder.runtime.event_loop import in_slices

OVERDUE = "DrainOverdue"
"""Reason of the Event."""

CHECK_SECONDS = 1.0
"""Seconds between two checks."""

MAX_EVENTS = 20
"""Limit on the Events of one check for a resource; the other drains follow at the next ones."""

Drains: TypeAlias = list[tuple[ObjectKey, Seen]]

_log = logging.getLogger(__name__)


class OverdueDrains:
    """Checks all drains every second."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._overdue: dict[RingName, Troubled] = {}
        self._told: dict[ObjectKey, float] = {}
        """Drains with an Event, by the time when they were first seen."""

    def of(self, ring: RingName) -> Troubled | None:
        """Return the overdue drains of a ring, None if there are none."""
        return self._overdue.get(ring)

    async def run(self, draining: Callable[[], Mapping[ResourceKey, Backlog]]) -> NoReturn:
        """Check the draining objects of each resource until cancelled."""
        while True:
            for key, seen in await self._scan(draining()):
                snapshot = self._ports.cache.snapshot(key.ring)
                if snapshot is not None:
                    await self._warn(snapshot, key, seen)
            await self._ports.clock.sleep(CHECK_SECONDS)

    async def _scan(self, backlogs: Mapping[ResourceKey, Backlog]) -> Drains:
        """Count overdue drains; return the first ones that have no Event."""
        # A drain that has ended is forgotten, even if the object is draining again.
        self._told = {
            key: since
            for key, since in self._told.items()
            if key.resource_key in backlogs and backlogs[key.resource_key].since(key.ref) == since
        }
        untold, found = Drains(), defaultdict[RingName, Drains](list)
        async for resource_key, backlog in in_slices(backlogs.items(), self._ports.clock):
            snapshot = self._ports.cache.snapshot(resource_key.ring)
            if snapshot is None or resource_key.resource not in snapshot.roles:
                continue  # its series are hidden, or soon will be
            drains = _overdue_of(snapshot, resource_key, backlog)
            self._ports.metrics.show_overdue(*resource_key, drains=len(drains))
            found[resource_key.ring] += drains
            untold += [drain for drain in drains if drain[0] not in self._told][:MAX_EVENTS]
        before, self._overdue = self._overdue, {r: _summary(found[r]) for r in found if found[r]}
        for ring in before.keys() | self._overdue.keys():
            if before.get(ring) != self._overdue.get(ring):
                self._ports.on_change(ring)
        return untold

    async def _warn(self, snapshot: RingSnapshot, key: ObjectKey, seen: Seen) -> None:
        try:
            resource = await self._ports.objects.find(key.resource)
            obj = await read(self._ports.objects, resource, key.ref)
        except (ApiError, InvalidObject) as error:
            fields = {"ring": snapshot.name, "object": str(key.ref), "error": str(error)}
            _log.debug("cannot read overdue drain", extra=fields)
            return
        self._told[key] = seen.since
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


def _summary(drains: Drains) -> Troubled:
    key, _ = min(drains, key=lambda drain: (drain[1].since, drain[0]))
    return Troubled(count=len(drains), first=f"{key.resource} {key.ref}")


def _overdue_of(snapshot: RingSnapshot, resource_key: ResourceKey, backlog: Backlog) -> Drains:
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
