"""Update the counts of rings whose strategy follows between two whole counts.

Nothing is stored per object.  The counts start from the last pass or recount; each assignment that
the leader writes, and each acknowledged drain, then moves one object.  A released object counts
for its last shard until it is assigned, and from then on for the next one, so it is taken off
there while the watch shows it as unassigned.  Only the next recount sees objects that users create
or delete, and the few objects that another replica hands over.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import ObjectStats, Waiting, unowned_of

MAX_SKIPPED: Final = 10
"""Whole counts in a row that are not used because objects moved meanwhile: a list shows some of
these objects before their move, and others after it."""


@dataclass(slots=True)
class _Counted:
    """The counts of one ring."""

    stats: ObjectStats | None = None
    """The last whole count."""
    moves: Counter[ShardName] = field(default_factory=Counter)
    """How many objects each shard has gained or lost since the last whole count."""
    began: tuple[Counter[ShardName], Counter[ShardName]] | None = None
    """The moves, and the released objects, when the lists of a whole count began."""
    skipped: int = 0


class LiveCounts:
    """The counts of all rings."""

    def __init__(self, waiting: Callable[[RingName], Waiting]) -> None:
        """`waiting` returns what the watches show of a ring."""
        self._waiting = waiting
        self._rings: dict[RingName, _Counted] = {}

    def list_begins(self, resource_key: ResourceKey) -> None:
        """Record that a list of a resource begins."""
        counted = self._of(resource_key.ring)
        if counted.began is None:
            counted.began = Counter(counted.moves), self._released(resource_key.ring)

    def assigned(self, key: ObjectKey, source: ShardName | None, target: ShardName) -> None:
        """Count the move of one object; `source` is None if it had no shard, or an unknown one."""
        moves = self._of(key.ring).moves
        moves[target] += 1
        if source is not None:
            moves[source] -= 1

    def counted(self, ring: RingName, stats: ObjectStats) -> None:
        """Replace the counts after lists of all resources of the ring."""
        counted, released = self._of(ring), self._released(ring)
        before, counted.began = counted.began or (Counter[ShardName](), released), None
        is_moving = before != (counted.moves, released)
        if is_moving and counted.stats is not None and counted.skipped < MAX_SKIPPED:
            counted.skipped += 1
            return
        counted.stats = replace(stats, by_shard=released + Counter(stats.by_shard))
        counted.moves.subtract(before[0])
        counted.skipped = 0

    def stats(self, snapshot: RingSnapshot) -> ObjectStats | None:
        """Return the current counts, None before the first whole count."""
        counted, waiting = self._of(snapshot.name), self._waiting(snapshot.name)
        if counted.stats is None:
            return None
        by_shard = Counter(counted.stats.by_shard)
        by_shard.update(counted.moves)
        by_shard.subtract(waiting.released)
        found = dict(+by_shard)
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

    def _released(self, ring: RingName) -> Counter[ShardName]:
        return Counter(self._waiting(ring).released)

    def _of(self, ring: RingName) -> _Counted:
        return self._rings.setdefault(ring, _Counted())


def _known(number: int | None, counted: int) -> int:
    return counted if number is None else number
