"""What one shard more or less would move: an estimate from the counts of the objects.

A plan asks every object.  The counts do not say what objects ask for, such as a pin or a pool, nor
where a hash puts them: of a strategy that follows, they say how many move on average.
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
    """The shard that would leave; None: one like the others would join."""
    moves: int
    """Objects that would move to another shard."""
    waiting: int = 0
    """Objects that would have to go, and would find no room; the capacity of pools is left out."""


def estimates(
    placer: Placer, counts: Counts, held: Mapping[ShardName, int]
) -> tuple[Estimate, ...]:
    """Return the estimates for one shard more, and for the ring without its fullest shard.

    There are none without objects and without shards that get new ones.  There are none during a
    rollout either: until it has ended, shards join and leave without moves for balance.

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
    """Return a shard with what all of these have in common.

    Its name is empty, as that of no other shard, and comes first.
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
    """Return how many more objects fit on the shards, None if one has no ceiling."""
    ceilings = placer.ceilings(counts)
    room = [ceilings.room(shard) for shard in shards]
    return None if None in room else sum(max(0, each or 0) for each in room)
