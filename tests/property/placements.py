"""Rings and objects for the properties of placement: small, crowded, and of every sort."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st
from msgspec import structs

from sharder.core.api.ring import AntiAffinity, PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand, identity_of
from sharder.core.placement.strategy import Layout
from sharder.core.placement.tally import Tally
from tests.support.simulated import Distribution, Placed
from tests.support.values_placement import shard

FOLLOWING = (StrategyName.CONSISTENT_HASH, StrategyName.RENDEZVOUS)
STICKING = tuple(name for name in StrategyName if name not in FOLLOWING)

FIVE = tuple(ShardName(f"shard-{letter}") for letter in "abcde")
STRANGER = ShardName("shard-x")
"""A shard that the ring does not know."""

weights = st.sampled_from([1.0, 1.0, 0.1, 2.5])
regions = st.sampled_from(["", "r", "s"])
zones = st.sampled_from(["", "z1", "z2", "z3"])
pools = st.sampled_from(["", "p", "q"])
seldom = st.sampled_from([False] * 4 + [True])


def emptiest(_: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName:
    """A strategy such as a user might install."""
    return min(candidates, key=lambda found: (counts.on(found.name), found.name)).name


@st.composite
def shards(draw: st.DrawFn, name: ShardName) -> Shard:
    """A shard anywhere, of any size, in any condition."""
    return shard(
        name,
        region=draw(regions),
        zone=draw(zones),
        pool=draw(pools),
        weight=draw(weights),
        room=draw(st.none() | st.integers(0, 6)),
        cordoned=draw(seldom),
        ready=not draw(seldom),
    )


@st.composite
def specs(draw: st.DrawFn, strategies: Sequence[StrategyName]) -> PlacementSpec:
    """Whatever may stand under `placement`."""
    return PlacementSpec(
        strategy=draw(st.sampled_from(strategies)),
        custom="emptiest",
        per_shard_capacity=draw(st.none() | st.integers(1, 6)),
        pool_capacity=draw(st.none() | st.integers(1, 9)),
        anti_affinity=draw(st.sampled_from(AntiAffinity)),
        min_zones=draw(st.sampled_from([1, 1, 2])),
        require_zone=draw(seldom),
        require_pool=draw(seldom),
    )


@st.composite
def layouts(draw: st.DrawFn, strategies: Sequence[StrategyName] = STICKING) -> Layout:
    """A ring of up to five shards; some can be away."""
    ring = tuple(draw(shards(name)) for name in FIVE[: draw(st.integers(1, 5))])
    away = draw(st.sets(st.sampled_from(FIVE), max_size=2))
    return layout_of(ring, draw(specs(strategies)), away)


@st.composite
def plain_layouts(
    draw: st.DrawFn, strategy: StrategyName = StrategyName.BOUNDED_LOAD, at_least: int = 1
) -> Layout:
    """A ring of shards that differ in weight alone."""
    names = FIVE[: draw(st.integers(at_least, 5))]
    ring = tuple(shard(name, weight=draw(weights)) for name in names)
    return layout_of(ring, PlacementSpec(strategy=strategy))


def layout_of(
    ring: Iterable[Shard], spec: PlacementSpec, away: Iterable[ShardName] = ()
) -> Layout:
    """Return the layout of shards, by name, with those `away` not available."""
    by_name = tuple(ring)
    return Layout(
        spec=spec,
        shards=by_name,
        available=tuple(found for found in by_name if found.name not in set(away)),
        custom={"emptiest": emptiest},
    )


@st.composite
def demands(draw: st.DrawFn, key: str) -> Demand:
    """An object anywhere, which asks for anything."""
    return Demand(
        key,
        identity_of(key),
        draw(st.sampled_from([None, *FIVE, *FIVE, STRANGER])),
        pin=draw(st.sampled_from([None, None, None, *FIVE])),
        region=draw(regions) if draw(seldom) else "",
        zone=draw(zones) if draw(seldom) else "",
        pool=draw(pools) if draw(seldom) else "",
        group=draw(st.integers(0, 3)),
    )


@st.composite
def rings_full(draw: st.DrawFn) -> list[Placed]:
    """Up to 14 objects of every sort."""
    found = []
    for number in range(draw(st.integers(0, 14))):
        demand = draw(demands(f"object-{number}"))
        demand = structs.replace(demand, groups=(demand.group,) if demand.group else ())
        found.append(Placed(demand, draining=draw(seldom), deleting=draw(seldom)))
    return found


plain_objects = st.integers(0, 30).map(
    lambda many: [Placed(Demand(f"object-{n}", identity_of(f"object-{n}"))) for n in range(many)]
)
"""Objects that are nowhere and ask for nothing."""


def after(objects: Iterable[Placed], found: Distribution, of: Layout) -> list[Placed]:
    """Return the objects where they belong.

    An object that belongs nowhere keeps the label of its lost shard.
    """
    moved = []
    for one in objects:
        now = found.choices[one.demand.identity].shard
        lost = one.demand.current if one.demand.current not in of.names else None
        demand = structs.replace(one.demand, current=now or lost)
        moved.append(Placed(demand, deleting=one.deleting))
    return moved


def counted(objects: Iterable[Placed]) -> Tally:
    """Return the counts of objects as they are."""
    tally = Tally()
    for one in objects:
        tally.see(None, *one.on(one.demand.current))
    return tally
