"""Facts and promises of `sharder.core.placement.strategies.spread`."""

from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from sharder.core.api.ring import GroupBy, PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.placement.demand import Demand
from sharder.core.placement.ranking import Ranking
from sharder.core.placement.strategies.spread import FULL_SCORE, Spread, spread_scores
from sharder.core.placement.strategy import group_members_of
from tests.support.values_placement import Members, layout, shard

APP = PlacementSpec(strategy=StrategyName.SPREAD, group_by=GroupBy(labels=("app",)))
WEB = 7
"""A group."""


SIX = tuple(
    shard(f"{zone}-{number}", zone=zone) for zone in ("z1", "z2", "z3") for number in (1, 2)
)
A1, A2, B1, B2, C1, C2 = SIX


LAYOUT = layout(*SIX, spec=APP)


def strategy(*shards: Shard) -> Spread:
    return Spread(layout(*shards, spec=APP))


def held(members: Mapping[Shard, int]) -> Members:
    """Return counts of the members of the group."""
    return Members({where.name: many for where, many in members.items()})


def web(key: str = "key") -> Demand:
    return Demand(key, 1, group=WEB)


@given(
    st.dictionaries(st.sampled_from(SIX), st.sampled_from((1, 2, 5, 200))),
    st.sets(st.sampled_from(SIX), min_size=1),
    st.text(),
)
@example(members={A1: 200, B1: 1}, some={A1, B1, B2}, key="rounded down, b1 and b2 are equal")
def test_the_key_decides_among_the_shards_with_the_highest_score(
    members: dict[Shard, int], some: set[Shard], key: str
) -> None:
    candidates = sorted(some, key=lambda s: s.name)
    counts = held(members)
    group = group_members_of(web(), LAYOUT, counts)

    chosen = strategy(*SIX).choose(web(key=key), candidates, counts)

    scores = spread_scores(candidates, group, FULL_SCORE)
    equals = [s for s, score in zip(candidates, scores, strict=True) if score == max(scores)]
    assert chosen.shard == Ranking().best(key, equals).name


def test_the_members_on_a_full_shard_count_against_the_others_of_its_zone() -> None:
    counts = held({A1: 3, B1: 1, B2: 1, C1: 1, C2: 1})
    without_the_full = (A2, B1, B2, C1, C2)

    remarks = strategy(*SIX).remarks(web(), without_the_full, counts)
    chosen = strategy(*SIX).choose(web(), without_the_full, counts)

    assert remarks[A2.name] == "score 33 of 100: 0 of its group here, 3 in its zone"
    assert chosen.shard not in {A1.name, A2.name}


def test_the_usual_candidates_are_sorted_by_place_once() -> None:
    assert LAYOUT.by_place(LAYOUT.open) is LAYOUT.by_place(LAYOUT.open)
    assert LAYOUT.by_place(LAYOUT.open) == LAYOUT.by_place(list(SIX))


def test_a_shard_without_a_zone_is_scored_by_its_own_members() -> None:
    free, nowhere = shard("n1"), shard("n2")
    places = (A1, A2, free, nowhere)

    chosen = strategy(*places).choose(web(), places, held({A1: 2, nowhere: 1}))

    assert chosen.shard == free.name
