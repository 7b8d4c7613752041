"""The shards of a ring, and how many objects each has, as far as this replica knows."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from sharder.controllers.journal import Journal
from sharder.core.api.lease import parse_time
from sharder.core.diagnosis.shards import ShardFacts, shards_of
from sharder.core.leases.register import Membership
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import stats_of
from sharder.core.status.phases import ShardPhase, leases_of, phases_of
from sharder.runtime.clock import Clock

MAX_SHARDS = 200
"""Limit on the shards in one document; a ring can have 1024."""

_TROUBLED_FIRST = (
    ShardPhase.LOST,
    ShardPhase.MISSING,
    ShardPhase.LATE,
    ShardPhase.LEAVING,
    ShardPhase.LEFT,
    ShardPhase.READY,
)


class Shards:
    """Lists the shards of one ring."""

    def __init__(
        self, snapshot: RingSnapshot, journal: Journal, membership: Membership, clock: Clock
    ) -> None:
        """Read the current state of the ring's shards."""
        self._snapshot = snapshot
        self._membership = membership
        self._now, self._monotonic = clock.now(), clock.monotonic()
        stats = stats_of(snapshot)
        if stats is None and journal.counts is not None:
            stats = journal.counts(snapshot.name)
        status = snapshot.ring.status
        known = status if stats is None else stats
        self.objects: int | None = known.objects
        """The number of objects of the main resources; None if they are not counted."""
        self.unassigned: int | None = known.unassigned
        self.unowned: int | None = known.unowned
        self._by_shard: Mapping[ShardName, int] = (
            {ShardName(each.name): each.objects or 0 for each in status.shard_statuses}
            if stats is None
            else stats.by_shard
        )
        # A shard without a Lease is in no phase, but can still have objects.
        gone = {shard for shard, objects in self._by_shard.items() if objects}
        self.phases = dict.fromkeys(sorted(gone), ShardPhase.LOST) | phases_of(
            snapshot.members, gone
        )
        self._leases = leases_of(snapshot.members)
        self._backlogs = journal.of(snapshot.name).backlogs

    def of(self, shard: ShardName) -> int | None:
        """Return how many objects a shard has."""
        return None if self.objects is None else self._by_shard.get(shard, 0)

    @property
    def drains(self) -> tuple[int | None, datetime | None]:
        """How many drains are open, and since when; a shard that is gone drains nothing."""
        status = self._snapshot.ring.status
        if not self._backlogs:
            return status.draining, parse_time(status.oldest_drain_since)
        drains = self._drains_by_shard().values()
        since = min((since for _, since in drains), default=None)
        return sum(count for count, _ in drains), since

    @property
    def unassigned_since(self) -> datetime | None:
        """Since when there are unassigned objects; None if there are none."""
        if self._backlogs:
            waiting = [each.unassigned() for each in self._backlogs.values()]
            ages = [age for shards in waiting for _, age in shards.values()]
            return self._ago(max(ages)) if ages else None
        if not self.unassigned:
            return None
        return parse_time(self._snapshot.ring.status.oldest_unassigned_since)

    def listed(self) -> Iterator[ShardFacts]:
        """Yield the shards, troubled ones first, then the fullest; at most `MAX_SHARDS`."""
        snapshot, drains = self._snapshot, self._drains_by_shard()

        def order(name: ShardName) -> tuple[int, int, str]:
            return _TROUBLED_FIRST.index(self.phases[name]), -(self.of(name) or 0), name

        names = sorted(self.phases, key=order)[:MAX_SHARDS]
        for facts in shards_of(snapshot.members, {name: self.phases[name] for name in names}):
            name = facts.name
            is_known = self._backlogs and not facts.phase.is_gone
            count, since = drains.get(name, (0, None)) if is_known else (None, None)
            yield replace(
                facts,
                objects=self.of(name),
                capacity=snapshot.placer.layout.declared_by(
                    snapshot.members.shards.get(name) or Shard(name=name)
                ),
                draining=count,
                draining_since=since,
                silent_since=self._silent_since(name) if facts.phase is ShardPhase.LATE else None,
            )

    def _silent_since(self, name: ShardName) -> datetime | None:
        lease = self._leases.get(name)
        observed = None if lease is None else self._membership.observed(lease.metadata.ref)
        return None if observed is None else self._ago(self._monotonic - observed.since)

    def _drains_by_shard(self) -> dict[ShardName, tuple[int, datetime]]:
        drains = dict[ShardName, tuple[int, datetime]]()
        for backlogs in self._backlogs.values():
            for shard, (count, age) in backlogs.draining().items():
                if shard not in self.phases or not self.phases[shard].is_gone:
                    before, since = drains.get(shard, (0, self._now))
                    drains[shard] = before + count, min(since, self._ago(age))
        return drains

    def _ago(self, seconds: float) -> datetime:
        """Return the instant `seconds` ago, to the second, so that polls return the same one."""
        return (self._now - timedelta(seconds=seconds)).replace(microsecond=0)
