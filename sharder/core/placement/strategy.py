"""What a strategy is: how one of several shards that all may have an object is chosen.

A strategy is built for a ring's shards and asked for each object.  A new one is a module with a
class like these; what else must know it is listed (docs/architecture.md, "To change X").
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum
from typing import NamedTuple, Protocol, TypeAlias

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.hashing import Ranking, WeightedRendezvous

CustomFunction: TypeAlias = Callable[[Demand, Sequence[Shard], Counts], ShardName | None]
"""(object, candidates, counts) → one of the candidates, or None; an installed entry point."""


Objection: TypeAlias = Callable[[Shard], str | None]
"""Tells of one shard after the other why it must not get an object, None if it may."""


def no_objection(_shard: Shard) -> str | None:
    """Object to no shard."""
    return None


class Choice(NamedTuple):
    """Where an object belongs, or why it has to wait."""

    shard: ShardName | None
    reason: str = ""
    """For people; never empty where there is no shard."""
    fault: bool = False
    """The strategy itself is at fault: it is not installed, or its answer was rejected."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a strategy is built from; what follows from it is worked out once."""

    spec: PlacementSpec
    shards: tuple[Shard, ...]
    """All shards of the ring, by name, whatever their state: zones and pools count over all."""
    available: tuple[Shard, ...]
    """Those of them that may own objects, by name."""
    ranking: Ranking = field(default_factory=WeightedRendezvous)
    custom: Mapping[str, CustomFunction] = field(default_factory=dict)
    """The installed entry points, by name."""

    @cached_property
    def essence(self) -> tuple[object, ...]:
        """All that a strategy which follows may look at; capacities change all the time."""
        described = [replace(shard, capacity={}) for shard in self.available]
        return self.spec, tuple(described), self.custom, self.newest

    @cached_property
    def names(self) -> frozenset[ShardName]:
        """Of the available shards."""
        return frozenset(shard.name for shard in self.available)

    @cached_property
    def by_name(self) -> Mapping[ShardName, Shard]:
        """All shards, whatever their state."""
        return {shard.name: shard for shard in (*self.shards, *self.available)}

    @cached_property
    def declared(self) -> Mapping[ShardName, int | None]:
        """The ceilings that the shards and the ring declare; None: there is no limit."""
        return {name: self.declared_by(shard) for name, shard in self.by_name.items()}

    def declared_by(self, shard: Shard) -> int | None:
        """Return the same of a shard that need not be one of these."""
        limits = (shard.ceiling, self.spec.per_shard_capacity)
        return min((limit for limit in limits if limit is not None), default=None)

    @cached_property
    def closed(self) -> Mapping[ShardName, Shard]:
        """The available shards that get nothing: people say so, or the ring requires more."""
        return {
            shard.name: shard
            for shard in self.available
            if shard.set_aside
            or (self.spec.require_pool and not shard.pool)
            or (self.spec.require_zone and not shard.zone)
        }

    @cached_property
    def evacuating(self) -> frozenset[ShardName]:
        """The available shards that are to let go of all that they have."""
        return frozenset(shard.name for shard in self.available if shard.evacuating)

    @cached_property
    def newest(self) -> str | None:
        """The newest revision while several are available, None if there is no such difference.

        It is that of the ready shard which took its Lease last; a shard that does not say its
        revision is no sign of a rollout.
        """
        revised = [shard for shard in self.available if shard.revision]
        if len({shard.revision for shard in revised}) < 2:
            return None
        return max(revised, key=lambda shard: (shard.ready, shard.since, shard.name)).revision

    @cached_property
    def weight(self) -> float:
        """The weights of the available shards that are not closed, together."""
        return fsum(shard.weight for shard in self.available if shard.name not in self.closed)

    @cached_property
    def pools(self) -> Mapping[str, tuple[Shard, ...]]:
        """The shards of each pool, whatever their state."""
        pools = defaultdict[str, tuple[Shard, ...]](tuple)
        for shard in self.shards:
            pools[shard.pool] += (shard,)
        return pools


class Strategy(Protocol):
    """Chooses among candidates, which have passed every hard filter."""

    @property
    def sticks(self) -> bool:
        """Whether an object stays where it is while it may; else it follows the choice."""
        ...

    def share(self, shard: Shard, objects: int, total_weight: float) -> int | None:
        """Return the shard's automatic ceiling among `objects`; None: the strategy has none."""
        ...

    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return one of `candidates`, which are by name and not empty, or why it is none."""
        ...

    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Return what tells why one of `candidates` must not get the object, None if it may."""
        ...

    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return in words what counts for or against each of `candidates`."""
        ...
