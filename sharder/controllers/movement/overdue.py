"""Report drains that the shard does not acknowledge in time.

No object is taken by force: the shard might still work on it (docs/protocol.md, "Budgets").
"""

import logging
from itertools import islice
from typing import NoReturn, TypeAlias

from sharder.controllers.movement.table import Seen, State, Table
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, Part, read
from sharder.core.api.ring import MovementSpec
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.names import RingName
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
    """The draining objects in the table whose shards had the time to release them."""

    def __init__(self, ports: Ports, table: Table) -> None:
        self._ports = ports
        self._table = table

    def of(self, ring: RingName) -> Troubled | None:
        """Return the overdue drains of a ring, None if there are none."""
        drains = [drain for part in self._table.parts(ring) for drain in self._of(part)]
        if not drains:
            return None
        first, _ = min(drains, key=lambda drain: (drain[1].since, drain[0]))
        return Troubled(count=len(drains), first=f"{first.resource} {first.ref}")

    def count(self, part: Part) -> int:
        """Return the number of overdue drains of a resource; any thread can call this."""
        return len(self._of(part))

    def _of(self, part: Part) -> Drains:
        snapshot = self._ports.cache.snapshot(part.ring)
        timeout = 0.0 if snapshot is None else timeout_of(snapshot.ring.spec.movement)
        draining = self._table.within(part, State.DRAINING) if timeout > 0 else {}
        end = self._ports.clock.monotonic() - timeout
        return [(part.key(ref), seen) for ref, seen in draining.items() if seen.since < end]

    async def run(self) -> NoReturn:
        """Tell of each overdue drain once, until cancelled."""
        while True:
            async for part in in_slices(self._table.parts(), self._ports.clock):
                drains = self._of(part)
                untold = (d for d in drains if self._table.get(d[0]).told != d[1].since)
                for key, seen in islice(untold, MAX_EVENTS):
                    await self._warn(key, seen)
            await self._ports.clock.sleep(CHECK_SECONDS)

    async def _warn(self, key: ObjectKey, seen: Seen) -> None:
        snapshot = self._ports.cache.snapshot(key.ring)
        if snapshot is None:
            return
        self._ports.on_change(key.ring)
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


def timeout_of(spec: MovementSpec) -> float:
    """Return after how many seconds a drain is overdue; 0 means never, as for an invalid value."""
    try:
        return max(0.0, parse_duration(spec.drain_timeout).total_seconds())
    except ValueError:
        return 0.0
