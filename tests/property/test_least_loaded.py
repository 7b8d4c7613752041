"""Promises of LeastLoaded, for all shards, objects and specs."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import NO_GROUP, identity_of
from sharder.core.placement.strategies.least_loaded import Chain, LeastLoaded, place_at, weights
from sharder.core.placement.strategy import Choice, Layout
from tests.support.least_loaded_ring import WEB, demand, shard, spec
from tests.support.values_placement import cuts_of, layout, tally

SHARDS = st.builds(
    shard,
    st.sampled_from([f"s{number}" for number in range(12)]),
    st.sampled_from(["", "z1", "z2", "z3"]),
    region=st.sampled_from(["", "r1", "r2"]),
    pool=st.sampled_from(["", "p1", "p2"]),
    room=st.sampled_from([None, 0, 10, 30]),
)
SPECS = st.builds(
    spec,
    required=st.booleans(),
    min_zones=st.integers(1, 3),
    pool_capacity=st.none() | st.integers(1, 60),
    per_shard_capacity=st.none() | st.integers(1, 20),
)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[PlacementSpec, list[tuple[Shard, bool, int, int]]]:
    """Return a spec; and shards, whether each is available, and its strangers and members."""
    shards = draw(st.lists(SHARDS, min_size=1, max_size=12, unique_by=lambda shard: shard.name))
    facts = st.tuples(st.booleans(), st.sampled_from([0, 5, 15]), st.integers(0, 2))
    return draw(SPECS), [(shard, *draw(facts)) for shard in shards]


def built(
    placement: PlacementSpec, shards: Sequence[tuple[Shard, bool, int, int]]
) -> tuple[Layout, list[Shard], Tally]:
    """Return what is asked, whatever the order of `shards`."""
    available = sorted(
        (shard for shard, is_available, _, _ in shards if is_available), key=lambda s: s.name
    )
    tally = Tally()
    for where, _, strangers, members in shards:
        for index in range(strangers + members):
            entry = Entry(where.name, (WEB,) if index < members else ())
            tally.see(None, identity_of(f"{where.name}/{index}"), entry)
    layout = Layout(
        spec=placement, shards=tuple(shard for shard, *_ in shards), available=tuple(available)
    )
    return layout, available, tally


@given(scenes(), st.text())
def test_each_cut_keeps_some_of_what_the_one_before_kept(
    scene: tuple[PlacementSpec, list[tuple[Shard, bool, int, int]]], key: str
) -> None:
    layout, available, tally = built(*scene)

    if available:
        kept = set(available)
        for cut in cuts_of(layout, demand(key, group=WEB), available, tally):
            assert set(cut.kept) <= kept
            assert len(cut.kept) == len(set(cut.kept))
            kept = set(cut.kept)


@given(scenes(), st.sampled_from([WEB, NO_GROUP]), st.text())
def test_the_draw_is_among_the_shards_that_the_last_cut_keeps(
    scene: tuple[PlacementSpec, list[tuple[Shard, bool, int, int]]], group: int, key: str
) -> None:
    layout, available, tally = built(*scene)
    asked, strategy = demand(key, group=group), LeastLoaded(layout)

    if available:
        choice = strategy.choose(asked, available, tally)
        last = cuts_of(layout, asked, available, tally)[-1]
        many = len(last.kept)
        if many:
            place = place_at(strategy.draw(asked, sum(weights(many))), many)
            assert choice == Choice(last.kept[place].name)
        else:
            assert choice == Choice(None, last.objection)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
    st.sets(st.sampled_from("abc"), min_size=1),
)
def test_without_capacities_the_fullest_shard_of_the_ring_is_full(
    held: dict[str, int], names: set[str]
) -> None:
    of = layout(*(Shard(name=ShardName(name)) for name in names))
    counts = tally({ShardName(name): many for name, many in held.items()} | {None: 20})

    chain = Chain(LeastLoaded(of), demand(), counts)

    fullest = max(held.get(name, 0) for name in names)
    assert max(chain.loads(of.shards)) == (100 * chain.percent if fullest else 0)
