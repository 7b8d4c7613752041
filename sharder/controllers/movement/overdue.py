"""Report drains that the shard does not acknowledge in time.

No object is taken by force: the shard might still work on it (docs/protocol.md, "Budgets").
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import islice
from typing import NoReturn, TypeAlias

from sharder.controllers.movement.table import Seen, State, Table
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, Part, ResourceKey, read
from sharder.core.api.ring import MovementSpec
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import Troubled
from sharder.core.texts import parse_duration
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

    def __init__(self, ports: Ports, table: Table) -> None:
        self._ports = ports
        self._table = table
        self._overdue: dict[RingName, Troubled] = {}

    def of(self, ring: RingName) -> Troubled | None:
        """Return the overdue drains of a ring, None if there are none."""
        return self._overdue.get(ring)

    async def run(self, watched: Callable[[], Collection[ResourceKey]]) -> NoReturn:
        """Check the draining objects of each watched resource until cancelled."""
        while True:
            for key, seen in await self._scan(watched()):
                snapshot = self._ports.cache.snapshot(key.ring)
                if snapshot is not None:
                    await self._warn(snapshot, key, seen)
            await self._ports.clock.sleep(CHECK_SECONDS)

    async def _scan(self, watched: Collection[ResourceKey]) -> Drains:
        """Count overdue drains; return the first ones that have no Event."""
        untold, found = Drains(), defaultdict[RingName, Drains](list)
        async for resource_key in in_slices(watched, self._ports.clock):
            snapshot = self._ports.cache.snapshot(resource_key.ring)
            if snapshot is None or resource_key.resource not in snapshot.roles:
                continue  # its series are hidden, or soon will be
            drains = self._overdue_of(snapshot, resource_key)
            shown = self._ports.metrics.gauges["overdue_drains"]
            shown.show(len(drains), resource_key.ring, *resource_key.resource)
            found[resource_key.ring] += drains
            is_untold = (d for d in drains if self._table.get(d[0]).told != d[1].since)
            untold += islice(is_untold, MAX_EVENTS)
        before, self._overdue = self._overdue, {r: _summary(found[r]) for r in found if found[r]}
        for ring in before.keys() | self._overdue.keys():
            if before.get(ring) != self._overdue.get(ring):
                self._ports.on_change(ring)
        return untold

    def _overdue_of(self, snapshot: RingSnapshot, resource_key: ResourceKey) -> Drains:
        timeout, now = timeout_of(snapshot.ring.spec.movement), self._ports.clock.monotonic()
        draining = self._table.within(Part(resource_key), State.DRAINING) if timeout > 0 else {}
        drains = [(ObjectKey(resource_key, ref), seen) for ref, seen in draining.items()]
        return [drain for drain in drains if drain[1].since < now - timeout]

    async def _warn(self, snapshot: RingSnapshot, key: ObjectKey, seen: Seen) -> None:
        try:
            resource = await self._ports.objects.find(key.resource)
            obj = await read(self._ports.objects, resource, key.ref)
        except (ApiError, InvalidObject) as error:
            fields = {"ring": snapshot.name, "object": str(key.ref), "error": str(error)}
            _log.debug("cannot read overdue drain", extra=fields)
            return
        self._table.get(key).told = seen.since
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
        await self._ports.recorder.tell(obj, OVERDUE, text)


def _summary(drains: Drains) -> Troubled:
    key, _ = min(drains, key=lambda drain: (drain[1].since, drain[0]))
    return Troubled(count=len(drains), first=f"{key.resource} {key.ref}")


def timeout_of(spec: MovementSpec) -> float:
    """Return after how many seconds a drain is overdue; 0 means never, as for an invalid value."""
    try:
        return max(0.0, parse_duration(spec.drain_timeout).total_seconds())
    except ValueError:
        return 0.0
