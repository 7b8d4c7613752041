"""Update the counts of rings whose strategy follows between two whole counts.

Nothing is stored per object.  The counts start from the last pass or recount; each assignment that
the leader writes, and each acknowledged drain, then moves one object.  Only the next recount sees
objects that users create or delete, and the few objects that another replica hands over.
"""

from collections import Counter
from dataclasses import dataclass, field

from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import ObjectStats, Waiting, unowned_of


@dataclass(slots=True)
class _Counted:
    """The counts of one ring."""

    stats: ObjectStats | None = None
    """The last whole count."""
    moves: Counter[ShardName] = field(default_factory=Counter)
    """How many objects each shard has gained or lost since the last whole count."""
    listing: dict[GroupResource, Counter[ShardName]] = field(default_factory=dict)
    """The same since the last list of each resource began; the next whole count does not include
    these moves."""


class LiveCounts:
    """The counts of all rings."""

    def __init__(self) -> None:
        self._rings: dict[RingName, _Counted] = {}

    def list_begins(self, resource_key: ResourceKey) -> None:
        """Record that a list of a resource begins, which includes all moves until now."""
        self._of(resource_key.ring).listing[resource_key.resource] = Counter()

    def assigned(self, key: ObjectKey, source: ShardName | None, target: ShardName) -> None:
        """Count the move of one object; `source` is None if it had no shard, or an unknown one."""
        counted = self._of(key.ring)
        for moves in (counted.moves, counted.listing.setdefault(key.resource, Counter())):
            moves[target] += 1
            if source is not None:
                moves[source] -= 1

    def counted(self, ring: RingName, stats: ObjectStats) -> None:
        """Replace the counts after lists of all resources of the ring."""
        counted = self._of(ring)
        counted.stats, counted.moves = stats, Counter()
        for moves in counted.listing.values():
            counted.moves.update(moves)

    def stats(self, snapshot: RingSnapshot, waiting: Waiting) -> ObjectStats | None:
        """Return the current counts, None before the first whole count."""
        counted = self._of(snapshot.name)
        if counted.stats is None:
            return None
        by_shard = Counter(counted.stats.by_shard)
        by_shard.update(counted.moves)
        found = {shard: number for shard, number in by_shard.items() if number > 0}
        unassigned = _known(waiting.unassigned, counted.stats.unassigned)
        return ObjectStats(
            objects=sum(found.values()) + unassigned,
            unassigned=unassigned,
            draining=_known(waiting.draining, counted.stats.draining),
            by_shard=found,
            has_room=None,
            unowned=unowned_of(snapshot.members, found, unassigned),
        )

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._rings.pop(ring, None)

    def _of(self, ring: RingName) -> _Counted:
        return self._rings.setdefault(ring, _Counted())


def _known(number: int | None, counted: int) -> int:
    return counted if number is None else number
