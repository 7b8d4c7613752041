"""How many objects one shard more or less would move: an estimate from the counts of the objects.

A plan is exact, but needs all objects.  Counts do not show what objects ask for, such as a pin or
a pool, or where a hash places them.  So for a strategy that follows, the estimate is an average.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.placer import Placer


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The effect of one shard more or less."""

    without: ShardName | None
    """The shard that would leave; None: a shard like the others would join."""
    moves: int
    """The number of objects that would move to another shard."""
    waiting: int = 0
    """The number of objects that would have no room anywhere; capacities of pools are ignored."""


def estimates(
    placer: Placer, counts: Counts, held: Mapping[ShardName, int]
) -> tuple[Estimate, ...]:
    """Return the estimates for one more shard, and for the ring without its fullest shard.

    The result is empty without objects, without shards that get new ones, and during a rollout:
    until that has ended, shards join and leave without moves for balance.

    Args:
        placer: Places objects on the ring's shards.
        counts: The counts that its strategy uses.
        held: How many objects each shard has.
    """
    layout = placer.layout
    usable = [shard for shard in layout.available if shard.name not in layout.closed]
    if not usable or layout.newest is not None or not any(held.values()):
        return ()
    fullest = min(usable, key=lambda shard: (-held.get(shard.name, 0), shard.name))
    joined = Estimate(without=None, moves=_moves_to_one_more(placer, usable, counts, held))
    return joined, _without(placer, fullest, counts, held.get(fullest.name, 0))


def _moves_to_one_more(
    placer: Placer, usable: Sequence[Shard], counts: Counts, held: Mapping[ShardName, int]
) -> int:
    if not placer.sticks:
        return round(sum(held.get(shard.name, 0) for shard in usable) / (len(usable) + 1))
    layout, new = placer.layout, _one_more_of(usable)
    larger = replace(layout, shards=(new, *layout.shards), available=(new, *layout.available))
    return max(0, _excess(Placer(larger), counts) - _excess(placer, counts))


def _one_more_of(usable: Sequence[Shard]) -> Shard:
    """Return a new shard with the properties that all of the given shards have in common.

    Its name is empty, so it differs from all others and comes first.
    """
    first = usable[0]
    return Shard(
        name=ShardName(""),
        pool=first.pool if all(s.pool == first.pool for s in usable) else "",
        weight=first.weight if all(s.weight == first.weight for s in usable) else 1.0,
        capacity=first.capacity if all(s.capacity == first.capacity for s in usable) else {},
    )


def _excess(placer: Placer, counts: Counts) -> int:
    return sum(placer.ceilings(counts).excess().values())


def _without(placer: Placer, shard: Shard, counts: Counts, objects: int) -> Estimate:
    available = tuple(s for s in placer.layout.available if s.name != shard.name)
    smaller = replace(placer.layout, available=available)
    rest = [s for s in available if s.name not in smaller.closed]
    room: int | None = None if rest else 0
    if rest and placer.sticks:
        room = _room(Placer(smaller), rest, counts)
    moves = objects if room is None else min(objects, room)
    return Estimate(without=shard.name, moves=moves, waiting=objects - moves)


def _room(placer: Placer, shards: Sequence[Shard], counts: Counts) -> int | None:
    """Return how many more objects fit on the shards, None if any of them has no ceiling."""
    ceilings = placer.ceilings(counts)
    room = [ceilings.room(shard) for shard in shards]
    return None if None in room else sum(max(0, each or 0) for each in room)
