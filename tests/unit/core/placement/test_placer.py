"""Facts about `sharder.core.placement.placer`: which shards can have an object, and why not."""

from dataclasses import replace

import pytest
from msgspec import structs

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import NO_COUNTS
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.ranking import WeightedRendezvous
from sharder.core.placement.strategies.rendezvous import BoundedLoad
from sharder.core.placement.strategy import Choice
from tests.support.values import A, B, C, D
from tests.support.values_placement import (
    BOUNDED,
    CONSISTENT,
    RENDEZVOUS,
    bounded,
    demand,
    layout,
    placer,
    shard,
    tally,
)
from tests.support.values_steering import APART

every_strategy = pytest.mark.parametrize(
    "spec", [BOUNDED, RENDEZVOUS, CONSISTENT], ids=lambda spec: spec.strategy
)
LIKED = shard(B, region="eu", zone="eu-1", pool="large")
LATE = "it does not renew its Lease in time, others do"


def why_not(
    one: Shard, asking: Demand, *, spec: PlacementSpec = BOUNDED, counts: Tally | None = None
) -> str | None:
    """Why a shard beside B cannot have the object, None if it can."""
    of = placer(one, LIKED, spec=spec)
    return of.explain(asking, Tally() if counts is None else counts).rejected.get(one.name)


def test_a_shard_may_have_an_object_that_asks_for_nothing() -> None:
    assert why_not(shard(A), demand()) is None


def test_a_cordoned_shard_gets_nothing() -> None:
    assert why_not(shard(A, cordoned=True), demand()) == "it is cordoned"


def test_an_object_that_is_pinned_goes_nowhere_else() -> None:
    assert why_not(shard(A), demand(pin=B)) == "the object is pinned to shard-b"
    assert why_not(shard(A), demand(pin=A)) is None


@pytest.mark.parametrize("pin", [C, D])
def test_a_pin_to_a_shard_that_is_not_available_counts_for_nothing(pin: ShardName) -> None:
    of = placer(shard(A), away=(shard(C),))

    assert of.place(demand(pin=pin), Tally()) == Choice(A)


@pytest.mark.parametrize(
    ("asking", "why"),
    [
        (demand(region="eu"), "the object asks for the region eu"),
        (demand(zone="eu-1"), "the object asks for the zone eu-1"),
        (demand(pool="large"), "the object asks for the pool large"),
    ],
)
def test_an_object_that_asks_for_a_place_goes_to_no_other(asking: Demand, why: str) -> None:
    assert why_not(shard(A), asking) == why
    assert why_not(replace(LIKED, name=A), asking) is None


def test_a_ring_may_require_a_pool() -> None:
    spec = PlacementSpec(require_pool=True)

    assert why_not(shard(A), demand(), spec=spec) == "it has no pool"
    assert why_not(shard(A, pool="p"), demand(), spec=spec) is None


def test_a_ring_may_require_a_zone() -> None:
    spec = PlacementSpec(require_zone=True)

    assert why_not(shard(A), demand(), spec=spec) == "it has no zone"
    assert why_not(shard(A, zone="z"), demand(), spec=spec) is None


def test_a_full_shard_gets_nothing() -> None:
    why = why_not(shard(A), demand(), spec=bounded(per_shard=2), counts=tally({A: 2}))

    assert why == "it is full: 2 of 2 objects"


def test_a_shard_of_a_full_pool_gets_nothing() -> None:
    one = shard(A, pool="p")

    why = why_not(one, demand(), spec=bounded(per_shard=9, per_pool=2), counts=tally({A: 2}))

    assert why == "its pool p is full: 2 of 2 objects"


@pytest.mark.parametrize(
    ("one", "pin", "why"),
    [
        (shard(A, cordoned=True), B, "it is cordoned"),
        (shard(A), B, "the object is pinned to shard-b"),
        (shard(A), None, "the object asks for the pool large"),
        (shard(A, pool="large"), None, "the object asks for the region eu"),
        (shard(A, pool="large", region="eu"), None, "the object asks for the zone eu-1"),
        (replace(LIKED, name=A), None, "it is full: 1 of 1 objects"),
    ],
)
def test_the_first_filter_in_order_gives_the_reason(
    one: Shard, pin: ShardName | None, why: str
) -> None:
    asking = demand(pin=pin, pool="large", region="eu", zone="eu-1")
    spec = PlacementSpec(
        strategy=StrategyName.BOUNDED_LOAD,
        require_pool=True,
        require_zone=True,
        per_shard_capacity=1,
    )

    assert why_not(one, asking, spec=spec, counts=tally({A: 1})) == why


def test_a_new_object_counts_for_the_automatic_ceiling() -> None:
    of = placer(shard(A), shard(B))

    assert of.place(demand(), tally({A: 1, B: 1})).shard is not None


def test_an_object_that_is_counted_already_does_not_count_twice() -> None:
    of = placer(shard(A), shard(B))
    counted = structs.replace(demand(), identity=2)
    counts = tally({A: 1, None: 2})

    assert of.explain(counted, counts).rejected == {}
    assert of.explain(counted, tally({A: 2, None: 1})).rejected == {
        A: "it is full: 2 of 2 objects"
    }


@every_strategy
def test_an_object_may_stay_on_a_cordoned_shard(spec: PlacementSpec) -> None:
    of = placer(shard(A, cordoned=True), spec=spec)

    assert of.place(demand(on=A), tally({A: 1})) == Choice(A)


def test_an_object_may_stay_on_a_full_shard() -> None:
    of = placer(shard(A), spec=bounded(per_shard=1))

    assert of.place(demand(on=A), tally({A: 5})) == Choice(A)


@every_strategy
def test_without_any_shard_the_reason_says_so(spec: PlacementSpec) -> None:
    of = placer(away=(shard(A),), spec=spec)

    assert of.place(demand(), NO_COUNTS) == Choice(None, "no shard is available")


@every_strategy
def test_the_reason_names_a_few_shards_each(spec: PlacementSpec) -> None:
    of = placer(shard(A, cordoned=True), shard(B), shard(C, zone="z1"), spec=spec)

    assert of.place(demand(zone="z2"), NO_COUNTS).reason == (
        "no shard can take the object: shard-a: it is cordoned; "
        "shard-b: the object asks for the zone z2; shard-c: the object asks for the zone z2"
    )


def test_the_reason_counts_many_shards() -> None:
    full = [shard(f"s-{n}", cordoned=n == 0) for n in range(5)]
    counts = tally({one.name: 3 for one in full})

    assert placer(*full, spec=bounded(per_shard=3)).place(demand(), counts).reason == (
        "no shard can take the object: 4 shards: it is full: 3 of 3 objects; "
        "1 shard: it is cordoned"
    )


def test_a_strategy_that_sticks_prefers_shards_that_renew_in_time() -> None:
    of = placer(shard(A, ready=False), shard(B))

    assert [of.place(demand(f"key-{n}"), Tally()).shard for n in range(20)] == [B] * 20
    assert of.explain(demand(), Tally()).rejected == {A: LATE}


def test_a_strategy_that_sticks_uses_a_late_shard_if_no_other_can_have_the_object() -> None:
    of = placer(shard(A, ready=False), shard(B, cordoned=True))

    assert of.place(demand(), Tally()) == Choice(A)


def test_with_a_strategy_that_sticks_an_object_stays_on_a_late_shard() -> None:
    of = placer(shard(A, ready=False), shard(B))

    assert A not in of.explain(demand(on=A), tally({A: 1})).rejected


def test_a_strategy_that_follows_ignores_late_renewals() -> None:
    of = placer(shard(A, ready=False), shard(B), spec=RENDEZVOUS)

    assert of.explain(demand(), NO_COUNTS).rejected == {}


def test_an_explanation_has_the_choice_and_a_remark_for_each_candidate() -> None:
    of = placer(shard(A, cordoned=True), shard(B), shard(C))

    explanation = of.explain(demand(), Tally())

    assert explanation.choice == of.place(demand(), Tally())
    assert set(explanation.rejected) == {A}
    assert set(explanation.remarks) == {B, C}


def test_without_candidates_there_are_no_remarks() -> None:
    explanation = placer(shard(A, cordoned=True)).explain(demand(), Tally())

    assert explanation.choice.shard is None
    assert explanation.remarks == {}


def test_the_score_of_a_shard_is_known_while_it_is_away() -> None:
    of = placer(shard(A), away=(shard(B, weight=2),))

    assert of.score("key", B) == WeightedRendezvous().score("key", shard(B, weight=2))


@pytest.mark.parametrize(("held", "room"), [({A: 1, B: 2}, True), ({A: 2, B: 2}, False)])
def test_there_is_room_while_one_shard_has_some(
    held: dict[ShardName | None, int], room: bool
) -> None:
    assert placer(shard(A), shard(B), spec=bounded(per_shard=2)).has_room(tally(held)) is room


def test_the_automatic_ceiling_always_leaves_room_for_one_more() -> None:
    assert placer(shard(A), shard(B)).has_room(tally({A: 2, B: 2}))


def test_where_every_shard_is_cordoned_it_is_not_room_that_is_missing() -> None:
    assert placer(shard(A, cordoned=True)).has_room(Tally())


def test_a_cordoned_shard_is_no_room_beside_others() -> None:
    one = placer(shard(A, cordoned=True), shard(B), spec=bounded(per_shard=1))

    assert not one.has_room(tally({B: 1}))


def test_a_strategy_that_was_built_before_is_used_again() -> None:
    of = layout(shard(A))
    before = BoundedLoad(of)

    assert Placer(of, before).strategy is before


def test_every_strategy_has_a_class() -> None:
    for name in StrategyName:
        built = placer(shard(A), spec=PlacementSpec(strategy=name))

        assert built.sticks is built.strategy.sticks


def test_a_key_is_drawn_to_the_shard_with_the_highest_score_even_if_it_is_full() -> None:
    of = placer(shard(A, room=0), shard(B, cordoned=True))

    assert {of.drawn(f"key-{number}") for number in range(20)} == {A, B}
    assert placer(away=(shard(A),)).drawn("key") is None


@pytest.mark.parametrize(
    ("spec", "other", "alike"),
    [
        (BOUNDED, shard(A), True),
        (BOUNDED, shard(A, room=3), False),
        (RENDEZVOUS, shard(A, room=3), True),
        (RENDEZVOUS, shard(A, weight=2), False),
        (CONSISTENT, shard(A, zone="z"), False),
    ],
)
def test_objects_are_placed_alike_while_what_matters_is_the_same(
    spec: PlacementSpec, other: Shard, alike: bool
) -> None:
    assert placer(shard(A), spec=spec).decides_like(layout(other, spec=spec)) is alike


# Pins to shards that get nothing, and moves that users ask for


@pytest.mark.parametrize(
    ("asking", "goal"),
    [
        (demand(), None),
        (demand(pin=D), None),
        (demand(pin=B), B),
        (demand(on=A, pin=B), B),
        (demand(pin=C), C),
        (demand(on=C, pin=C), C),
        (demand(on=A, pin=C), None),
        (demand(pin=C, moves=True), None),
    ],
    ids=[
        "no pin",
        "to a shard that does not exist",
        "new",
        "elsewhere",
        "new, to a cordoned shard",
        "there",
        "elsewhere, to a cordoned shard",
        "released, to a cordoned shard",
    ],
)
@every_strategy
def test_a_pin_to_a_cordoned_shard_lets_new_objects_wait_and_others_be(
    spec: PlacementSpec, asking: Demand, goal: ShardName | None
) -> None:
    of = placer(shard(A), shard(B), shard(C, cordoned=True), spec=spec)

    assert of.goal_of(asking) == goal
    assert (of.place(asking, Tally()).shard is None) is (goal == C and asking.current is None)


@pytest.mark.parametrize("on", [None, A, B])
def test_a_pin_to_a_shard_that_is_evacuated_counts_for_nothing(on: ShardName | None) -> None:
    of = placer(shard(A, evacuating=True, cordoned=True), shard(B))

    assert of.goal_of(demand(on=on, pin=A)) is None
    assert of.place(demand(pin=A), Tally()) == Choice(B)


def test_a_shard_that_is_evacuated_gets_nothing_and_keeps_nothing() -> None:
    leaving = shard(A, evacuating=True)

    assert why_not(leaving, demand()) == "it is being evacuated"
    assert why_not(leaving, demand(on=A)) == "it is being evacuated"
    assert not placer(leaving, LIKED).keeps(demand(on=A))


@pytest.mark.parametrize(
    ("asking", "keeps"),
    [(demand(), False), (demand(on=A), True), (demand(on=A, pin=B), False)],
)
def test_an_object_may_stay_on_a_cordoned_shard_unless_it_is_pinned_elsewhere(
    asking: Demand, keeps: bool
) -> None:
    assert placer(shard(A, cordoned=True), LIKED).keeps(asking) is keeps


@pytest.mark.parametrize(
    ("held", "asking", "why"),
    [
        (2, demand(moves=True), None),
        (3, demand(moves=True), "it is full: 3 of 3 objects"),
        (0, demand(moves=True, pin=B), "the object is pinned to shard-b"),
    ],
)
def test_a_shard_that_cannot_get_an_object_has_an_objection(
    held: int, asking: Demand, why: str | None
) -> None:
    of = placer(shard(A), LIKED, spec=bounded(per_shard=3))

    assert of.objection(asking, shard(A), tally({A: held})) == why


def test_the_strategy_may_have_an_objection_of_its_own() -> None:
    counts = tally({})
    counts.see("group", 1, Entry(A, (7,)))

    why = placer(shard(A), LIKED, spec=APART).objection(demand(group=7), shard(A), counts)

    assert why == "it holds a member of the group"


def test_a_shard_may_be_sent_one_of_a_group_that_needs_more_zones_than_its_own() -> None:
    spec = PlacementSpec(strategy=StrategyName.LEAST_LOADED, min_zones=2)
    zones = [shard(name, zone=zone) for name, zone in ((A, "z1"), (B, "z2"))]
    counts = tally({})
    counts.see("group", 1, Entry(A, (7,)))
    counts.see("group", 2, Entry(A, (7,)))

    of = placer(*zones, spec=spec)
    asking = structs.replace(demand(group=7), identity=1, moves=True)

    assert of.objection(asking, zones[0], counts) is None
    assert of.objection(asking, zones[1], counts) is None


def test_a_strategy_that_follows_has_no_objection_to_what_hashes_elsewhere() -> None:
    of = placer(shard(A), LIKED, spec=RENDEZVOUS)

    asked = [of.objection(demand(f"object-{n}"), shard(A), NO_COUNTS) for n in range(20)]

    assert asked == [None] * 20
