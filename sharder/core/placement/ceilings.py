"""How many objects a shard may have, and which are too many (docs/placement.md, "Ceilings")."""

from collections.abc import Sequence
from itertools import pairwise

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategy import Layout, Strategy


class Ceilings:
    """The ceilings of a ring's shards and pools, at the counts of one moment."""

    __slots__ = (
        "_counts",
        "_in_pool",
        "_layout",
        "_objects",
        "_own",
        "_shares",
        "_spec",
        "_strategy",
    )

    def __init__(
        self,
        layout: Layout,
        strategy: Strategy,
        counts: Counts,
        *,
        newcomers: int = 0,
        own: tuple[ShardName | None, ShardName | None] = (None, None),
    ) -> None:
        """Take into account what is about to be placed.

        Args:
            layout: The shards.
            strategy: Built from an equal layout.
            counts: Where the objects are.
            newcomers: Objects to be placed that are not counted yet.
            own: The shard that has the object to be placed, and where it is to go, if it is
                counted already: it takes no room from itself.
        """
        self._layout = layout
        self._spec = layout.spec
        self._strategy = strategy
        self._counts = counts
        self._own = own
        self._shares: dict[float, int | None] = {}
        self._in_pool: dict[str, int] = {}
        self._objects = counts.objects + newcomers
        if layout.closed:
            self._objects += self._leaving() - sum(map(self._held, layout.closed.values()))

    def of(self, shard: Shard, *, pinned: bool = False) -> int | None:
        """Return the most objects that the shard may have, None if there is no limit.

        What people have pinned to a shard is bound by declared ceilings, not by the automatic one.
        """
        declared = self._layout.declared[shard.name]
        share = None if pinned else self._share(shard)
        if declared is None or share is None:
            return share if declared is None else declared
        return min(declared, share)

    def bind(self, shard: Shard) -> bool:
        """Return whether there is any limit for the shard or its pool."""
        in_pool = self._spec.pool_capacity is not None and bool(shard.pool)
        return in_pool or self.of(shard) is not None

    def with_room(self, shards: Sequence[Shard], demand: Demand) -> list[Shard]:
        """Return those that have room for an object, the one that it is on included."""
        on, pin = demand.current, demand.pin
        return [s for s in shards if s.name == on or not self.objection(s, pinned=s.name == pin)]

    def objection(self, shard: Shard, *, pinned: bool) -> str | None:
        """Return why the shard has no room for one more, None if it has."""
        ceiling = self.of(shard, pinned=pinned)
        if ceiling is not None and (held := self._held(shard)) >= ceiling:
            return f"it is full: {held} of {ceiling} objects"
        limit = self._spec.pool_capacity
        if limit is not None and shard.pool:
            held = self._held_in(shard.pool)
            if held >= limit:
                return f"its pool {shard.pool} is full: {held} of {limit} objects"
        return None

    def room(self, shard: Shard) -> int | None:
        """Return how many more objects fit under the shard's own ceiling, None: as many as come.

        Below 0 if it has too many.
        """
        ceiling = self.of(shard)
        return None if ceiling is None else ceiling - self._held(shard)

    def excess(self) -> dict[ShardName, int]:
        """Return how many objects each shard has to give up, for those that have too many.

        What is leaving is no more in the way, and what is only assumed never was; a cordoned
        shard keeps what it has.
        """
        return self._excess_of(self._layout.available)

    def excess_on(self, shard: Shard) -> int:
        """Return the same of one available shard; no pool but its own is looked at."""
        beside: Sequence[Shard] = (shard,)
        if self._spec.pool_capacity is not None and shard.pool:
            beside = self._layout.pools[shard.pool]
        return self._excess_of(beside).get(shard.name, 0)

    def keeps_one_more(self, shard: Shard) -> bool:
        """Return whether an object that the shard was asked to let go could stay after all."""
        limit, pool_limit = self._limit(shard), self._spec.pool_capacity
        if limit is not None and self._counts.staying_on(shard.name) >= limit:
            return False
        if pool_limit is None or not shard.pool:
            return True
        pool = self._layout.pools[shard.pool]
        return sum(self._counts.staying_on(s.name) for s in pool) < pool_limit

    def _held(self, shard: Shard) -> int:
        """Return how many objects the shard has, or will when working shards let go of them.

        Without the one that is to be placed.  What a shard that is gone was to let go of has to
        be placed like any other.
        """
        (on, to), works = self._own, self._layout.names
        held = self._counts.on(shard.name) - (shard.name == on)
        coming = self._counts.heading_to(shard.name)
        if not coming or shard.name in self._layout.closed:
            return held
        held += sum(many for origin, many in coming.items() if origin is None or origin in works)
        return held - (shard.name == to and (on is None or on in works))

    def _leaving(self) -> int:
        """Return how many objects of closed shards are on their way to open ones.

        Without the one that is to be placed.
        """
        (on, to), closed = self._own, self._layout.closed
        goals = self._layout.names - closed.keys()
        coming = (self._counts.heading_to(goal).items() for goal in goals)
        leaving = sum(many for each in coming for origin, many in each if origin in closed)
        return leaving - (on in closed and to in goals)

    def _held_in(self, pool: str) -> int:
        """Return the same of a pool; all of its shards ask for it, one after the other."""
        if pool not in self._in_pool:
            shards = self._layout.pools[pool]
            self._in_pool[pool] = sum(map(self._held, shards)) - self._moving_within(shards)
        return self._in_pool[pool]

    def _moving_within(self, pool: Sequence[Shard]) -> int:
        """Return how many objects go from one shard of a pool to another: it has each but once.

        Without the one that is to be placed.
        """
        (on, to), layout = self._own, self._layout
        origins = {shard.name for shard in pool} & layout.names
        goals = {shard.name for shard in pool} - layout.closed.keys()
        coming = (self._counts.heading_to(goal).items() for goal in goals)
        within = sum(many for each in coming for origin, many in each if origin in origins)
        return within - (on in origins and to in goals)

    def _limit(self, shard: Shard) -> int | None:
        """Return the most objects that may stay.

        Those pinned there come on top of the automatic ceiling: they displace no others.
        """
        limit, share = self.of(shard, pinned=True), self._share(shard)
        if share is None or self._layout.newest is not None:
            return limit  # nothing moves for balance in the middle of a rollout
        share += self._counts.pinned_on(shard.name)
        return share if limit is None else min(limit, share)

    def _excess_of(self, shards: Sequence[Shard]) -> dict[ShardName, int]:
        """Return the same for some shards, which are all of the pools that they are in."""
        here = self._layout.names
        movable = [shard for shard in shards if shard.name in here and not shard.set_aside]
        excess = {shard.name: self._above(shard) for shard in movable}
        limit = self._spec.pool_capacity
        if limit is not None:
            for pool in {shard.pool for shard in movable if shard.pool}:
                self._level(self._layout.pools[pool], limit, excess)
        return {shard: many for shard, many in sorted(excess.items()) if many}

    def _above(self, shard: Shard) -> int:
        """Return how many objects a shard has above its own ceiling."""
        limit = self._limit(shard)
        return 0 if limit is None else max(0, self._counts.settled_on(shard.name) - limit)

    def _level(self, pool: Sequence[Shard], limit: int, excess: dict[ShardName, int]) -> None:
        """Add to the excess of a pool's fullest shards what the pool has above its limit.

        As if object by object were taken from the fullest, of several the first by name; what
        `excess` does not name cannot be taken from.
        """
        left = {s.name: self._counts.settled_on(s.name) - excess.get(s.name, 0) for s in pool}
        movable = [shard for shard in left if shard in excess]
        surplus = sum(left.values()) - limit
        if surplus <= 0:
            return
        level, beyond = _levelled([left[shard] for shard in movable], surplus)
        for shard in sorted(movable):
            if left[shard] >= level:
                one_more = beyond > 0
                excess[shard] += left[shard] - level + one_more
                beyond -= one_more

    def _share(self, shard: Shard) -> int | None:
        if shard.name in self._layout.closed:
            return None
        if shard.weight not in self._shares:
            share = self._strategy.share(shard, self._objects, self._layout.weight)
            self._shares[shard.weight] = share
        return self._shares[shard.weight]


def _levelled(heights: Sequence[int], surplus: int) -> tuple[int, int]:
    """Return to which level to cut heights for a surplus, and how many of them by one more.

    The level is 0 if they are not enough.
    """
    falling = (*sorted(heights, reverse=True), 0)
    for many, (height, lower) in enumerate(pairwise(falling), start=1):
        if surplus < many * (height - lower):
            deep, beyond = divmod(surplus, many)
            return height - deep, beyond
        surplus -= many * (height - lower)
    return 0, 0
