"""Small values for tests of placement: shards, a layout of them, objects, counts."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from typing_extensions import override

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts, Entry
from sharder.core.placement.demand import NO_GROUP, Demand, identity_of
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategies.least_loaded import Chain, Cut, LeastLoaded
from sharder.core.placement.strategies.spread import FULL_SCORE, spread_scores
from sharder.core.placement.strategy import Layout, group_members_of
from sharder.core.placement.tally import Tally
from tests.support.values import A

Place: TypeAlias = tuple[str, str]
"""Region and zone."""

BOUNDED = PlacementSpec(strategy=StrategyName.BOUNDED_LOAD)
RENDEZVOUS = PlacementSpec(strategy=StrategyName.RENDEZVOUS)
CONSISTENT = PlacementSpec(strategy=StrategyName.CONSISTENT_HASH)


def shard(
    name: str = A,
    *,
    region: str = "",
    zone: str = "",
    pool: str = "",
    weight: float = 1.0,
    room: int | None = None,
    cordoned: bool = False,
    evacuating: bool = False,
    revision: str = "",
    since: float = 0.0,
    ready: bool = True,
) -> Shard:
    """A shard; `room` is the capacity in objects that it declares."""
    return Shard(
        name=ShardName(name),
        region=region,
        zone=zone,
        pool=pool,
        weight=weight,
        capacity={} if room is None else {"objects": Decimal(room)},
        cordoned=cordoned,
        evacuating=evacuating,
        revision=revision,
        since=since,
        ready=ready,
    )


def bounded(*, per_shard: int | None = None, per_pool: int | None = None) -> PlacementSpec:
    """BoundedLoad with ceilings."""
    return PlacementSpec(
        strategy=StrategyName.BOUNDED_LOAD, per_shard_capacity=per_shard, pool_capacity=per_pool
    )


def layout(*shards: Shard, spec: PlacementSpec = BOUNDED, away: tuple[Shard, ...] = ()) -> Layout:
    """A ring of available shards, and of those that are `away`."""
    return Layout(spec=spec, shards=_by_name(*shards, *away), available=_by_name(*shards))


def placer(*shards: Shard, spec: PlacementSpec = BOUNDED, away: tuple[Shard, ...] = ()) -> Placer:
    """What places objects on the layout of these shards."""
    return Placer(layout(*shards, spec=spec, away=away))


def demand(
    key: str = "object",
    *,
    on: ShardName | None = None,
    pin: ShardName | None = None,
    zone: str = "",
    group: int = NO_GROUP,
    moves: bool = False,
) -> Demand:
    """An object that is on a shard or nowhere, and asks for something or nothing."""
    return Demand(key, identity_of(key), on, pin, zone=zone, group=group, moves=moves)


def tally(held: Mapping[ShardName | None, int]) -> Tally:
    """Counts of so many objects on each shard; None is nowhere."""
    counts = Tally()
    identity = 0
    for name, many in held.items():
        for _ in range(many):
            counts.see("objects", identity, Entry(name))
            identity += 1
    return counts


class Members(Counts):
    """Counts of the members of one group, which can be too many to list."""

    def __init__(self, on: Mapping[ShardName, int]) -> None:
        super().__init__()
        self._members_on = on

    @override
    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return them whatever the group."""
        return self._members_on


def spread_of(
    members: Sequence[int], places: Sequence[Place | None], full: int = FULL_SCORE
) -> list[int]:
    """Return the scores of shards that have so many members, and are there or in no zone."""
    named = [
        shard(f"shard-{number}", region=region, zone=zone)
        for number, (region, zone) in enumerate(place or ("", "") for place in places)
    ]
    on = {s.name: many for s, many in zip(named, members, strict=True)}
    group = group_members_of(demand(group=1), layout(*named), Members(on))
    return spread_scores(named, group, full)


def cuts_of(of: Layout, asking: Demand, candidates: Sequence[Shard], counts: Counts) -> list[Cut]:
    """Return what LeastLoaded drops of the candidates for an object, cut by cut."""
    return list(Chain(LeastLoaded(of), asking, counts).cuts(candidates))


def _by_name(*shards: Shard) -> tuple[Shard, ...]:
    return tuple(sorted(shards, key=lambda found: found.name))
