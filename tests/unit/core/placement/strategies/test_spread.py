"""Facts and promises of `sharder.core.placement.strategies.spread`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import RingName, ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.placement.demand import NO_GROUP, Demand, Reader, identity_of
from sharder.core.placement.ranking import WeightedRendezvous
from sharder.core.placement.strategies.group_members import group_members_of
from sharder.core.placement.strategies.spread import FULL_SCORE, Spread, spread_scores
from sharder.core.placement.strategy import Layout
from tests.support.values_placement import Members, Place, spread_of

APP = PlacementSpec(strategy=StrategyName.SPREAD, group_by=GroupBy(labels=("app",)))
READER = Reader(RingName("demo"), APP)
Z1, Z2, Z3 = (("r", f"z{number}") for number in (1, 2, 3))
WEB = 7
"""A group."""


def shard(name: str, zone: str = "", region: str = "r") -> Shard:
    return Shard(name=ShardName(name), zone=zone, region=region)


SIX = tuple(shard(f"{zone}-{number}", zone) for zone in ("z1", "z2", "z3") for number in (1, 2))
A1, A2, B1, B2, C1, C2 = SIX


LAYOUT = Layout(spec=APP, shards=SIX, available=SIX)


def strategy(shards: Sequence[Shard] = SIX) -> Spread:
    return Spread(Layout(spec=APP, shards=tuple(shards), available=tuple(shards)))


def tally(members: Mapping[Shard, int]) -> Tally:
    """Return a count of members of the group `WEB`, which are numbered from 1000."""
    counts = Tally()
    identity = 1000
    for where, many in members.items():
        for _ in range(many):
            counts.see("webs", identity, Entry(where.name, (WEB,)))
            identity += 1
    return counts


def web(identity: int = 1, key: str = "key") -> Demand:
    return Demand(key, identity, group=WEB)


def app(name: str, label: str, namespace: str = "default") -> PartialObject:
    return PartialObject(
        kind="App", metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": label})
    )


def demand_of(obj: PartialObject) -> Demand:
    key = f"{obj.metadata.namespace}/{obj.metadata.name}"
    return READER.demand(obj, key=key, identity=identity_of(key), current=None)


def create(obj: PartialObject, counts: Tally, by: Spread, shards: Sequence[Shard]) -> ShardName:
    """Place an object and count it there."""
    demand = demand_of(obj)
    chosen = by.choose(demand, shards, counts).shard
    assert chosen is not None
    counts.assume(Reservation(demand.identity, Entry(chosen, READER.groups_of(obj))))
    return chosen


def held_of(group: int, counts: Counts, shards: Sequence[Shard] = SIX) -> dict[Shard, int]:
    return {s: counts.members_on(group, s.name) for s in shards}


@pytest.mark.parametrize(
    ("members", "places", "scores"),
    [
        ([3, 5, 10], [None, None, None], [70, 50, 0]),
        ([3, 5, 10], [Z1, Z2, Z3], [70, 50, 0]),
        ([0, 0, 0], [Z1, Z2, None], [100, 100, 100]),
        ([0, 2, 6], [Z1, Z2, None], [100, 22, 0]),
        ([1, 1, 1, 1], [Z1, Z1, Z2, None], [0, 0, 33, 0]),
        ([0, 0, 4], [Z1, Z2, None], [100, 100, 0]),
        ([1, 0, 4], [Z1, Z2, None], [25, 100, 0]),
        ([2, 0], [("r1", "z"), ("r2", "z")], [0, 100]),
        ([4], [Z1], [0]),
        ([4], [None], [0]),
        ([], [], []),
    ],
)
def test_a_score_is_two_thirds_the_zones_and_one_third_the_shards(
    members: list[int], places: list[Place | None], scores: list[int]
) -> None:
    assert spread_of(members, places) == scores


def test_a_score_is_exact_where_floating_point_is_one_too_low() -> None:
    upstream = 100 * (29 / 50) * (1 - 2 / 3) + 2 / 3 * (100 * (29 / 50))

    assert int(upstream) == 57
    assert spread_of([21, 50], [Z1, Z2]) == [58, 0]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([Z1, Z2, Z3, None])), min_size=1),
    st.sampled_from([10, 100]),
)
def test_a_score_is_upstreams_formula_rounded_down(
    shards: list[tuple[int, Place | None]], full: int
) -> None:
    members, places = [here for here, _ in shards], [place for _, place in shards]
    zones = {p: sum(here for here, at in shards if at == p) for p in places if p is not None}

    def room(here: int, most: int) -> Fraction:
        return Fraction(most - here, most) if most else Fraction(1)

    exact = [
        room(here, max(members))
        if place is None
        else room(here, max(members)) / 3 + room(zones[place], max(zones.values())) * 2 / 3
        for here, place in shards
    ]

    assert spread_of(members, places, full) == [int(full * score) for score in exact]


def test_an_object_goes_to_the_zone_with_fewest_of_its_group() -> None:
    counts = tally({A1: 1, A2: 1, B1: 1, B2: 1, C1: 1})

    assert strategy().choose(web(), SIX, counts).shard == C2.name


def test_within_a_zone_an_object_goes_to_the_shard_with_fewest_of_its_group() -> None:
    counts = tally({A1: 2, A2: 2, B1: 2, B2: 2, C1: 3, C2: 0})

    assert strategy().choose(web(), SIX, counts).shard == C2.name


def test_zones_of_one_name_in_two_regions_are_two() -> None:
    here, there = shard("a", "z", "r1"), shard("b", "z", "r2")

    remarks = strategy((here, there)).remarks(web(), (here, there), tally({here: 1}))

    assert remarks[there.name] == "score 100 of 100: 0 of its group here, 0 in its zone"


def test_shards_without_a_zone_share_none() -> None:
    one, two, three = shard("a"), shard("b"), shard("c", "z")

    remarks = strategy((one, two, three)).remarks(
        web(), (one, two, three), tally({one: 2, two: 1})
    )

    assert remarks[two.name] == "score 50 of 100: 1 of its group here, it has no zone"
    assert remarks[three.name] == "score 100 of 100: 0 of its group here, 0 in its zone"


@given(st.text(), st.sets(st.sampled_from(SIX), min_size=1))
def test_ties_are_broken_by_the_key_alone(key: str, some: set[Shard]) -> None:
    candidates = sorted(some, key=lambda s: s.name)

    chosen = strategy().choose(web(key=key), candidates, tally({}))

    assert chosen.shard == WeightedRendezvous().best(key, candidates).name


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
    counts = Members({where.name: many for where, many in members.items()})
    group = group_members_of(web(), LAYOUT, counts)

    chosen = strategy().choose(web(key=key), candidates, counts)

    scores = spread_scores(candidates, group, FULL_SCORE)
    equals = [s for s, score in zip(candidates, scores, strict=True) if score == max(scores)]
    assert chosen.shard == WeightedRendezvous().best(key, equals).name


@given(st.text())
def test_the_key_alone_decides_for_an_object_without_group(key: str) -> None:
    counts = tally({A1: 9, B1: 4})

    chosen = strategy().choose(Demand(key, 1, group=NO_GROUP), SIX, counts)

    assert chosen.shard == WeightedRendezvous().best(key, SIX).name


@given(
    st.dictionaries(st.sampled_from(SIX), st.integers(0, 5)),
    st.permutations(SIX),
    st.text(),
)
def test_the_order_of_shards_makes_no_difference(
    members: dict[Shard, int], order: list[Shard], key: str
) -> None:
    counts = tally(members)

    assert strategy(order).choose(web(key=key), SIX, counts) == strategy().choose(
        web(key=key), SIX, counts
    )


def test_the_members_on_a_full_shard_count_against_the_others_of_its_zone() -> None:
    counts = tally({A1: 3, B1: 1, B2: 1, C1: 1, C2: 1})
    without_the_full = (A2, B1, B2, C1, C2)

    remarks = strategy().remarks(web(), without_the_full, counts)
    chosen = strategy().choose(web(), without_the_full, counts)

    assert remarks[A2.name] == "score 33 of 100: 0 of its group here, 3 in its zone"
    assert chosen.shard not in {A1.name, A2.name}


def test_the_members_on_a_shard_that_is_not_available_count_in_its_zone() -> None:
    layout = Layout(spec=APP, shards=SIX, available=SIX[1:])
    counts = tally({A1: 3, B1: 1, B2: 1, C1: 1, C2: 1})

    remarks = Spread(layout).remarks(web(), SIX[1:], counts)

    assert remarks[A2.name] == "score 33 of 100: 0 of its group here, 3 in its zone"


def test_an_available_shard_outside_the_layout_is_in_no_zone() -> None:
    unknown = shard("unknown")
    layout = Layout(spec=APP, shards=(A1,), available=(A1, unknown))

    chosen = Spread(layout).choose(web(), (A1, unknown), tally({A1: 1}))

    assert chosen.shard == "unknown"


def test_a_lone_shard_scores_nothing_and_is_chosen_nevertheless() -> None:
    only, counts = (A1,), tally({A1: 4})

    assert strategy(only).choose(web(), only, counts).shard == A1.name
    assert strategy(only).remarks(web(), only, counts) == {
        A1.name: "score 0 of 100: 4 of its group here, 4 in its zone"
    }


@pytest.mark.parametrize(
    "leaving", [Entry(A1.name, (WEB,), draining=True), Entry(A1.name, (WEB,), deleting=True)]
)
def test_what_is_leaving_does_not_count(leaving: Entry) -> None:
    counts = tally({A2: 1, B1: 1, B2: 1, C1: 1, C2: 1})
    counts.see("webs", 1, leaving)

    assert strategy().choose(web(identity=2), SIX, counts).shard == A1.name


def test_objects_of_other_namespaces_and_other_values_do_not_count() -> None:
    counts, by = Tally(), strategy((A1, B1))
    here = create(app("w", "web"), counts, by, (A1, B1))
    other = A1 if here == B1.name else B1

    for number in range(5):
        counts.see("more", number, Entry(other.name, READER.groups_of(app("w", "web", "team"))))
        counts.see("more", 10 + number, Entry(other.name, READER.groups_of(app("w", "db"))))

    assert create(app("w-2", "web"), counts, by, (A1, B1)) == other.name


def test_an_object_does_not_count_against_its_own_place() -> None:
    counts = tally({A1: 1, B1: 1, B2: 1, C1: 1, C2: 1})

    remarks = strategy().remarks(web(identity=1000), SIX, counts)

    assert remarks[A1.name] == "score 100 of 100: 0 of its group here, 0 in its zone"


def test_an_object_that_is_leaving_is_not_taken_off_twice() -> None:
    counts = tally({A1: 2})
    counts.see("webs", 1, Entry(A1.name, (WEB,), draining=True))

    remarks = strategy().remarks(web(identity=1), SIX, counts)

    assert remarks[A1.name].endswith("2 of its group here, 2 in its zone")


def test_what_a_lost_shard_had_goes_to_its_zone_again() -> None:
    counts = tally(dict.fromkeys(SIX, 2))
    layout = Layout(spec=APP, shards=SIX, available=SIX[1:])
    orphans = [1000, 1001]

    for identity in orphans:
        chosen = Spread(layout).choose(web(identity, f"key-{identity}"), SIX[1:], counts).shard
        counts.assume(Reservation(identity, Entry(chosen, (WEB,))))

    assert counts.members_on(WEB, A2.name) == 4


def test_an_object_without_group_is_explained_by_its_key() -> None:
    remarks = strategy().remarks(Demand("key", 1), SIX, tally({A1: 1}))

    score = WeightedRendezvous().score("key", A1)
    assert remarks[A1.name] == f"the object has no group, its key alone scores {score:.4g}"
    assert remarks.keys() == {s.name for s in SIX}


def test_spreading_sticks_and_has_no_ceiling_of_its_own() -> None:
    assert strategy().sticks
    assert strategy().share(1.0, 60, 6.0) is None


sixty = [app(f"object-{number}", f"app-{number % 5}") for number in range(60)]


@given(st.permutations(sixty), st.permutations(SIX))
def test_every_group_is_even_over_zones_and_over_the_shards_of_a_zone(
    order: list[PartialObject], shards: list[Shard]
) -> None:
    counts, by = Tally(), strategy(shards)
    for obj in order:
        create(obj, counts, by, SIX)

    for obj in sixty[:5]:
        held = held_of(demand_of(obj).group, counts)
        by_zone = Counter[str]()
        for where, many in held.items():
            by_zone[where.zone] += many
        assert by_zone == {"z1": 4, "z2": 4, "z3": 4}
        assert set(held.values()) == {2}


@given(st.permutations(sixty), st.integers(0, 60), st.integers(1, 4), st.integers(1, 4))
def test_every_group_is_even_at_every_moment_where_zones_are_of_one_size(
    order: list[PartialObject], many: int, zones: int, size: int
) -> None:
    rows = [[shard(f"{z}-{n}", f"z{z}") for n in range(size)] for z in range(zones)]
    shards = [s for row in rows for s in row]
    counts, by = Tally(), strategy(shards)
    for obj in order[:many]:
        create(obj, counts, by, shards)

    for obj in sixty[:5]:
        held = held_of(demand_of(obj).group, counts, shards)
        totals = [sum(held[s] for s in row) for row in rows]
        assert max(totals) - min(totals) <= 1
        assert all(max(held[s] for s in row) - min(held[s] for s in row) <= 1 for row in rows)


@given(st.permutations(sixty))
def test_placing_again_what_was_placed_moves_nothing(order: list[PartialObject]) -> None:
    counts, by = Tally(), strategy()
    last = [create(obj, counts, by, SIX) for obj in order][-1]

    assert by.choose(demand_of(order[-1]), SIX, counts).shard == last
