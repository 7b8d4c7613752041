"""Update the counts of rings whose strategy follows between two counts of a part.

Nothing is stored per object.  The counts of a part start from its last list; each assignment that
the leader writes, and each acknowledged drain, then moves one object.  A released object counts
for its last shard until it is assigned, and from then on for the next one, so it is taken off
there while the watch shows it as unassigned.  Only the next list shows objects that users create
or delete, and the few objects that another replica hands over.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sharder.controllers.counting.resync_stats import PartCounts
from sharder.controllers.scope import ObjectKey, Part, is_part_of
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import ObjectStats, Waiting, unowned_of

MAX_SKIPPED: Final = 10
"""Lists of a part in a row that are not used because objects moved meanwhile: a list shows some of
these objects before their move, and others after it."""


class Began(NamedTuple):
    """A part when a list of it began."""

    moves: Counter[ShardName]
    released: Counter[ShardName]


@dataclass(slots=True)
class _PartCount:
    """The counts of one part."""

    counts: PartCounts | None = None
    """The last counts, None before the first list has ended."""
    moves: Counter[ShardName] = field(default_factory=Counter)
    """How many objects each shard has gained or lost since these counts."""
    skipped: int = 0
    uncontrolled: int = 0
    """The objects without a controller among those that these objects can control."""


class LiveCounts:
    """The counts of all rings; a part that cannot be counted keeps its last counts."""

    def __init__(self, released: Callable[[Part], Counter[ShardName]]) -> None:
        """`released` returns the unassigned objects by the shard for which they still count."""
        self._released = released
        self._rings: dict[RingName, dict[Part, _PartCount]] = {}

    def list_begins(self, part: Part) -> Began:
        """Return the state of a part, for `counted` after its list."""
        return Began(Counter(self._of(part).moves), self._released(part))

    def assigned(self, key: ObjectKey, source: ShardName | None, target: ShardName) -> None:
        """Count the move of one object; `source` is None if it had no shard, or an unknown one."""
        for part, counted in self._rings.get(key.ring, {}).items():
            if part.holds(key):
                counted.moves[target] += 1
                if source is not None:
                    counted.moves[source] -= 1

    def counted(
        self, part: Part, began: Began, counts: PartCounts, *, uncontrolled: int | None = None
    ) -> None:
        """Replace the counts of a part after its list; `uncontrolled` is None if not counted."""
        known, released = self._of(part), self._released(part)
        known.uncontrolled = known.uncontrolled if uncontrolled is None else uncontrolled
        is_moving = began != (known.moves, released)
        if is_moving and known.counts is not None and known.skipped < MAX_SKIPPED:
            known.skipped += 1
            return
        counts.by_shard.update(released)
        known.counts, known.skipped = counts, 0
        known.moves.subtract(began.moves)

    def keep(self, snapshot: RingSnapshot) -> None:
        """Forget the parts that are no longer parts of the ring."""
        known = self._rings.get(snapshot.name, {})
        self._rings[snapshot.name] = {p: known[p] for p in known if is_part_of(snapshot, p)}

    def stats(self, snapshot: RingSnapshot, waiting: Waiting) -> ObjectStats:
        """Return the current counts; `waiting` is what the watches show."""
        every, by_shard = list[PartCounts](), Counter[ShardName]()
        for part in self._rings.get(snapshot.name, {}).values():
            if part.counts is not None:
                every.append(part.counts)
                by_shard.update(part.counts.by_shard)
                by_shard.update(part.moves)
        by_shard.subtract(waiting.released)
        found = dict(+by_shard)
        unassigned = _known(waiting.unassigned, sum(counts.unassigned for counts in every))
        return ObjectStats(
            objects=sum(found.values()) + unassigned,
            unassigned=unassigned,
            draining=_known(waiting.draining, sum(counts.draining for counts in every)),
            by_shard=found,
            has_room=None,
            unowned=unowned_of(snapshot.members, found, unassigned),
        )

    def uncontrolled(self, ring: RingName) -> int:
        """Return how many objects of controlled resources had no controller when listed."""
        return sum(counted.uncontrolled for counted in self._rings.get(ring, {}).values())

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._rings.pop(ring, None)

    def _of(self, part: Part) -> _PartCount:
        return self._rings.setdefault(part.ring, {}).setdefault(part, _PartCount())


def _known(number: int | None, counted: int) -> int:
    return counted if number is None else number
