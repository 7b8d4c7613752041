"""How many objects a shard can have, and its excess (docs/placement.md, "Ceilings").

Three numbers decide: the objects *on* a shard, the objects *arriving* there from elsewhere, and
the objects *leaving* a closed shard for an open one.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence, Set

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategy import Layout, Size, Strategy, lowest


class Ceilings:
    """The ceilings of a ring's shards and pools, by the counts of one moment."""

    __slots__ = ("_counts", "_in_pool", "_layout", "_objects", "_own", "_strategy")

    def __init__(
        self,
        layout: Layout,
        strategy: Strategy,
        counts: Counts,
        placing: Demand | None = None,
    ) -> None:
        """Compute the ceilings, for the next object if `placing` is one.

        An object that is counted already must take no room from itself.  `strategy` was built from
        a layout that is equal to `layout`.
        """
        self._layout = layout
        self._strategy = strategy
        self._counts = counts
        entry = None if placing is None else counts.entry(placing.identity)
        self._own = (None, None) if entry is None else (entry.shard, entry.heading)
        """The shard and the target of the object to place."""
        self._in_pool: dict[str, int] = {}
        is_new = placing is not None and entry is None
        self._objects = counts.objects + is_new
        if layout.closed:
            self._objects += self._leaving() - sum(map(self._held, layout.closed.values()))

    def of(self, shard: Shard, *, pinned: bool = False) -> int | None:
        """Return the ceiling of the shard, None if it has none.

        A declared ceiling applies to pinned objects, an automatic one does not.
        """
        size = self._layout.sizes[shard.name]
        return size.declared if pinned else self._of_size(size)

    def _of_size(self, size: Size) -> int | None:
        """Return the ceiling of shards of this size."""
        return lowest(size.declared, self._share(size))

    def _share(self, size: Size) -> int | None:
        """Return the automatic ceiling of shards of this size, None if they have none."""
        return None if size.weight is None else self._strategy.share(size.weight, self._objects)

    def bind(self, shard: Shard) -> bool:
        """Return whether the shard or its pool has a ceiling."""
        return shard.pool in self._layout.pools or self.of(shard) is not None

    def with_room(self, shards: Sequence[Shard], demand: Demand) -> Sequence[Shard]:
        """Return the shards with room for an object, its own shard included.

        If all shards have room, the same sequence is returned, because a layout has cached facts
        about it.
        """
        on, full, pools = demand.current, self._full(demand), self._full_pools()
        found = [s for s in shards if s.name not in full]
        if pools:
            found = [s for s in found if s.pool not in pools or s.name == on]
        return shards if len(found) == len(shards) else found

    def _full(self, demand: Demand) -> Set[ShardName]:
        """Return the shards without room below their own ceilings, except the object's shard.

        Most shards are judged by their number of objects alone.  A shard is judged by itself if
        the object to place is on it or pinned to it, or if other objects arrive there.
        """
        on, pin, counts = demand.current, demand.pin, self._counts
        full, special = self._at_ceiling(), {on, pin, *self._own, *counts.targets}
        judged = self._layout.names & special
        if not judged:
            return full
        by_name = self._layout.by_name
        kept = {s for s in judged if s != on and self.objection(by_name[s], pinned=s == pin)}
        return full - judged | kept

    def _at_ceiling(self) -> Set[ShardName]:
        """Return the shards that have as many objects as their own ceilings allow, or more."""
        counts, layout = self._counts, self._layout
        ceilings = [self._of_size(size) for size in layout.different_sizes]
        if len(ceilings) == 1 and (limit := ceilings[0]):  # the usual case
            full = [names for many, names in counts.holding.items() if many >= limit]
            return full[0] if len(full) == 1 else frozenset().union(*full)
        most = dict(zip(layout.different_sizes, ceilings, strict=True))
        held = counts.on_each
        return {
            name
            for name, size in layout.sizes.items()
            if (ceiling := most[size]) is not None and held.get(name, 0) >= ceiling
        }

    def objection(self, shard: Shard, *, pinned: bool) -> str | None:
        """Return why the shard has no room for one more object, None if it has."""
        ceiling = self.of(shard, pinned=pinned)
        if ceiling is not None and (held := self._held(shard)) >= ceiling:
            return f"it is full: {held} of {ceiling} objects"
        if (
            shard.pool in self._layout.pools
            and (held := self._held_in(shard.pool)) >= self._layout.pool_limit
        ):
            return f"its pool {shard.pool} is full: {held} of {self._layout.pool_limit} objects"
        return None

    def room(self, shard: Shard) -> int | None:
        """Return how many more objects fit under the shard's own ceiling, None without a ceiling.

        The number is negative if the shard has too many objects.
        """
        ceiling = self.of(shard)
        return None if ceiling is None else ceiling - self._held(shard)

    def excess(self) -> dict[ShardName, int]:
        """Return how many objects have to leave each shard that has too many.

        Objects that are leaving, and unconfirmed reservations, do not count.  Cordoned shards keep
        their objects.
        """
        return self._excess_of(self._layout.available)

    def excess_on(self, shard: Shard) -> int:
        """Return how many objects have to leave one available shard; only its pool is computed."""
        beside = self._layout.pools.get(shard.pool, (shard,))
        return self._excess_of(beside).get(shard.name, 0)

    def keeps_one_more(self, shard: Shard) -> bool:
        """Return whether there is room for a draining object of the shard to stay."""
        limit, pool = self._limit(shard), self._layout.pools.get(shard.pool)
        if limit is not None and self._counts.staying_on(shard.name) >= limit:
            return False
        return (
            pool is None
            or sum(self._counts.staying_on(s.name) for s in pool) < self._layout.pool_limit
        )

    def _held(self, shard: Shard) -> int:
        """Return how many objects are on the shard or arrive there, except the one to place."""
        on, _ = self._own
        return self._counts.on(shard.name) - (shard.name == on) + self._arriving_at(shard.name)

    def _arriving_at(self, goal: ShardName, pool: Collection[ShardName] = ()) -> int:
        """Return how many objects arrive from outside a pool, except the one to place.

        An object arrives from a working shard, or after its release.  The objects of a shard that
        is gone do not count as arriving: they are placed like any other object.  Where a released
        object arrives itself, no other one does: with room for one, two would wait for each other.
        """
        (on, to), works = self._own, self._layout.names
        coming = self._counts.heading_to(goal)
        if (
            not coming
            or goal in self._layout.closed
            or (on is None and (to == goal or to in pool))
        ):
            return 0
        arriving = {o: n for o, n in coming.items() if o is None or (o in works and o not in pool)}
        return sum(arriving.values()) - (goal == to and on in arriving)

    def _leaving(self) -> int:
        """Return how many objects leave closed shards for open ones, except the one to place."""
        (on, to), closed, works = self._own, self._layout.closed, self._layout.names
        goals = [goal for goal in self._counts.targets if goal in works and goal not in closed]
        coming = (self._counts.heading_to(goal).items() for goal in goals)
        leaving = sum(many for each in coming for origin, many in each if origin in closed)
        return leaving - (on in closed and to in goals)

    def _full_pools(self) -> set[str]:
        """Return the pools without room for one more object."""
        return {
            pool for pool in self._layout.pools if self._held_in(pool) >= self._layout.pool_limit
        }

    def _held_in(self, pool: str) -> int:
        """Return how many objects are on the shards of a pool or arrive there; cached.

        An object that moves within the pool counts once.
        """
        if pool not in self._in_pool:
            on, _ = self._own
            names = {shard.name for shard in self._layout.pools[pool]}
            arriving = (self._arriving_at(g, names) for g in self._counts.targets if g in names)
            held = sum(map(self._counts.on, names)) - (on in names)
            self._in_pool[pool] = held + sum(arriving)
        return self._in_pool[pool]

    def _limit(self, shard: Shard) -> int | None:
        """Return how many objects can stay on the shard at most.

        Pinned objects raise the automatic ceiling of their shard, so they displace no others, also
        while they are there only until they can go to another shard.
        """
        size = self._layout.sizes[shard.name]
        share = self._share(size)
        # No object moves for balance during a rollout, or because others cannot be counted.
        if share is None or self._layout.newest is not None or self._counts.unread:
            return size.declared
        return lowest(size.declared, share + self._counts.pinned_on(shard.name))

    def _excess_of(self, shards: Sequence[Shard]) -> dict[ShardName, int]:
        """Return the excess of some shards, among which each pool is complete."""
        here = self._layout.names
        movable = [shard for shard in shards if shard.name in here and not shard.set_aside]
        excess = {shard.name: self._above(shard) for shard in movable}
        for pool in {shard.pool for shard in movable} & self._layout.pools.keys():
            self._level(self._layout.pools[pool], excess)
        return {shard: many for shard, many in sorted(excess.items()) if many}

    def _above(self, shard: Shard) -> int:
        """Return by how many objects a shard exceeds its own ceiling."""
        limit = self._limit(shard)
        return 0 if limit is None else max(0, self._counts.settled_on(shard.name) - limit)

    def _level(self, pool: Sequence[Shard], excess: dict[ShardName, int]) -> None:
        """Add the excess of a pool to the excess of its fullest shards.

        The result is as if objects were taken one by one from the fullest shard, or from the first
        by name if several are equally full.  Shards that are not in `excess` keep their objects.
        """
        left = {s.name: self._counts.settled_on(s.name) - excess.get(s.name, 0) for s in pool}
        movable = sorted(shard for shard in left if shard in excess)
        surplus = sum(left.values()) - self._layout.pool_limit
        if surplus <= 0:
            return

        def above(level: int) -> int:
            return sum(max(0, left[shard] - level) for shard in movable)

        # The lowest level that removes no more than the surplus; some are cut by one more.
        level = bisect_left(range(above(0)), -surplus, key=lambda level: -above(level))
        beyond = surplus - above(level) if level else 0
        for shard in movable:
            if left[shard] >= level:
                one_more = beyond > 0
                excess[shard] += left[shard] - level + one_more
                beyond -= one_more
