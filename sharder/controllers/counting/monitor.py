"""Act on changes of the tallies, soon but not too often.

Only the leader runs this (docs/placement.md, "The tally").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, NoReturn

from sharder.controllers.ports import Ports
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import excess_of
from sharder.core.names import RingName, ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.placer import Placer
from sharder.core.ring.snapshot import RingSnapshot

POLL_SECONDS: Final = 0.5
"""Seconds between two checks."""

RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts to assign waiting objects after departures; with the poll and the
write, an object waits less than 2 s."""

PAUSE_SECONDS: Final = 15.0
"""Seconds before another pass is requested for the same excess: some cannot be drained, but a
failed drain can succeed later."""


@dataclass(slots=True)
class _CheckedTally:
    """A ring's tally at the last check."""

    tally: Tally
    placer: Placer | None = None
    changes: int = -1
    departures: int = 0
    """The number of departures when waiting objects were last retried."""
    tried_at: float = -inf
    excess: Mapping[ShardName, int] | None = None
    """None before everything was listed."""
    requested_at: float = 0.0
    unread: tuple[str, ...] = ()
    """The parts that could not be read, at the last report."""


class TallyMonitor:
    """Polls every ring's tally."""

    def __init__(self, ports: Ports, recheck: Callable[[RingName], None]) -> None:
        """`recheck` retries the ring's unassigned objects: there is capacity."""
        self._cache = ports.cache
        self._resync = ports.resync_ring
        self._recheck = recheck
        self._report = ports.on_change
        self._clock = ports.clock
        self._seen: dict[RingName, _CheckedTally] = {}

    async def run(self) -> NoReturn:
        """Poll until cancelled."""
        while True:
            rings = self._cache.rings()
            self._seen = {ring: seen for ring, seen in self._seen.items() if ring in rings}
            for ring in rings:
                snapshot = self._cache.snapshot(ring)
                if snapshot is not None and snapshot.tally is not None:
                    self._check(snapshot, snapshot.tally)
            await self._clock.sleep(POLL_SECONDS)

    def _check(self, snapshot: RingSnapshot, tally: Tally) -> None:
        seen = self._seen.get(snapshot.name)
        if seen is None or seen.tally is not tally:
            seen = self._seen[snapshot.name] = _CheckedTally(tally)
        if tally.unread != seen.unread:
            seen.unread = tally.unread
            self._report(snapshot.name)
        if not tally.synced:
            seen.excess = None
            return
        now = self._clock.monotonic()
        is_news = seen.changes != tally.changes or seen.placer is not snapshot.placer
        seen.changes, seen.placer = tally.changes, snapshot.placer
        if is_news or seen.excess is None or seen.excess:
            self._request_pass(snapshot, seen, now)
        self._retry_waiting(snapshot, tally, seen, now)
        if is_news:
            self._report(snapshot.name)

    def _request_pass(self, snapshot: RingSnapshot, seen: _CheckedTally, now: float) -> None:
        """Request a pass if a shard has too many objects, or after the first list."""
        before, excess = seen.excess, excess_of(snapshot)
        seen.excess = excess
        is_due = bool(excess) and now >= seen.requested_at + PAUSE_SECONDS
        if before is None or _grows(before, excess) or is_due:
            seen.requested_at = now
            self._resync(snapshot.name)

    def _retry_waiting(
        self, snapshot: RingSnapshot, tally: Tally, seen: _CheckedTally, now: float
    ) -> None:
        """Retry waiting objects after departures; the last departure is never missed.

        Objects whose shard is gone wait too, but only a pass finds them.
        """
        standing_of = snapshot.members.standing_of
        orphaned = any(standing_of(shard) is Standing.GONE for shard in tally.by_shard())
        # The objects of an evacuating shard that found no capacity wait too.
        if not snapshot.ring.spec.movement.paused:
            orphaned |= any(map(tally.staying_on, snapshot.placer.layout.evacuating))
        if not (tally.unassigned or orphaned):
            seen.departures = tally.departures
        elif tally.departures != seen.departures and now >= seen.tried_at + RETRY_SECONDS:
            seen.departures, seen.tried_at = tally.departures, now
            (self._resync if orphaned else self._recheck)(snapshot.name)


def _grows(before: Mapping[ShardName, int], excess: Mapping[ShardName, int]) -> bool:
    """Return whether any shard's excess grows; a shrinking excess is being drained."""
    return any(many > before.get(shard, 0) for shard, many in excess.items())
