"""The promises of `sharder.placement`: what holds for every ring and every strategy."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.ring import StrategyName
from sharder.core.placement.counts import NO_COUNTS, Entry
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout
from sharder.core.placement.tally import Reservation, Tally
from tests.property.placements import (
    FIVE,
    FOLLOWING,
    after,
    counted,
    demands,
    layout_of,
    layouts,
    plain_layouts,
    plain_objects,
    rings_full,
)
from tests.property.strategies import keys
from tests.support.simulated import Placed, distribute


@given(layouts(), rings_full())
def test_to_distribute_the_result_moves_nothing(of: Layout, objects: list[Placed]) -> None:
    found = distribute(objects, Placer(of))
    again = distribute(after(objects, found, of), Placer(of))

    assert {one: choice.shard for one, choice in again.choices.items()} == {
        one: choice.shard for one, choice in found.choices.items()
    }
    assert not again.displaced


@given(layouts(), rings_full())
def test_no_shard_has_more_than_it_may_have(of: Layout, objects: list[Placed]) -> None:
    found = distribute(objects, Placer(of))

    staying = Counter(
        found.choices[one.demand.identity].shard for one in objects if not one.deleting
    )
    for one in of.available:
        limits = [
            limit for limit in (one.ceiling, of.spec.per_shard_capacity) if limit is not None
        ]
        assert one.cordoned or all(staying[one.name] <= limit for limit in limits)


@given(layouts(), rings_full())
def test_no_pool_has_more_than_it_may_have(of: Layout, objects: list[Placed]) -> None:
    found = distribute(objects, Placer(of))

    tally = counted(after(objects, found, of))
    limit = of.spec.pool_capacity
    for pool in {one.pool for one in of.available if one.pool and limit is not None}:
        held = {one: tally.staying_on(one.name) for one in of.pools[pool]}
        movable = [one for one in held if one in of.available and not one.cordoned]
        assert sum(held.values()) <= (limit or 0) or not any(held[one] for one in movable)


@given(plain_layouts(at_least=2), plain_objects, st.data())
def test_with_bounded_load_a_shard_that_leaves_moves_nothing_but_its_own(
    of: Layout, objects: list[Placed], data: st.DataObject
) -> None:
    placed = after(objects, distribute(objects, Placer(of)), of)
    leaver = data.draw(st.sampled_from(of.available)).name
    smaller = layout_of(of.shards, of.spec, [leaver])

    found = distribute(placed, Placer(smaller))

    assert not found.displaced
    for one in placed:
        owner = found.choices[one.demand.identity].shard
        assert owner in smaller.names
        assert one.demand.current in {owner, leaver}


@given(layouts(), rings_full())
def test_only_what_has_to_go_leaves_an_available_shard_and_none_comes_to_a_cordoned_one(
    of: Layout, objects: list[Placed]
) -> None:
    found = distribute(objects, Placer(of))

    cordoned = {one.name for one in of.available if one.cordoned}
    for one in objects:
        demand, owner = one.demand, found.choices[one.demand.identity].shard
        if demand.current in of.names and owner != demand.current:
            is_displaced = demand.identity in found.displaced
            assert one.draining or is_displaced or Placer(of).is_misplaced(demand)
        assert owner not in cordoned or owner == demand.current


# One object


@given(layouts(tuple(StrategyName)), rings_full(), demands("new"))
def test_a_strategy_answers_with_a_candidate_and_explains_all_others(
    of: Layout, objects: list[Placed], demand: Demand
) -> None:
    explanation = Placer(of).explain(demand, counted(objects))

    assert explanation.rejected.keys() | explanation.remarks.keys() == of.names
    assert not explanation.rejected.keys() & explanation.remarks.keys()
    assert all((*explanation.rejected.values(), *explanation.remarks.values()))
    if explanation.choice.shard is None:
        assert explanation.choice.reason
    else:
        assert explanation.choice.shard in explanation.remarks


# What follows


@pytest.mark.parametrize("strategy", FOLLOWING)
@given(st.data(), keys)
def test_who_joins_takes_objects_from_others_and_no_other_does(
    strategy: StrategyName, data: st.DataObject, key: str
) -> None:
    of = data.draw(plain_layouts(strategy, at_least=2))
    joiner = data.draw(st.sampled_from(of.available)).name
    smaller = layout_of(of.shards, of.spec, [joiner])

    before = Placer(smaller).place(Demand(key, 0), NO_COUNTS).shard
    owner = Placer(of).place(Demand(key, 0), NO_COUNTS).shard

    assert owner in {before, joiner}


# What is counted

entries = st.builds(
    Entry,
    st.none() | st.sampled_from(FIVE[:3]),
    st.sampled_from([(), (1,), (1, 2)]),
    draining=st.booleans(),
    deleting=st.booleans(),
    pinned=st.booleans(),
)
identities = st.integers(0, 5)
PARTS = ("widgets", "secrets")
"""Objects with even numbers are widgets."""


def seeing(number: int, entry: Entry | None, version: int) -> Callable[[Tally], None]:
    return lambda tally: tally.see(PARTS[number % 2], number, entry, version)


def assuming(number: int, entry: Entry, version: int) -> Callable[[Tally], None]:
    return lambda tally: tally.assume(Reservation(number, entry, version))


def forgetting(number: int) -> Callable[[Tally], None]:
    return lambda tally: tally.forget(number)


def dropping(part: int) -> Callable[[Tally], None]:
    def drop(tally: Tally) -> None:
        leaving = tally.leave(PARTS[part])
        for number in tally.shown_by(leaving):
            tally.see(leaving, number, None)

    return drop


steps = (
    st.builds(seeing, identities, st.none() | entries, identities)
    | st.builds(assuming, identities, entries, identities)
    | st.builds(forgetting, identities)
    | st.builds(dropping, st.integers(0, 1))
    | st.just(Tally.clear)
    | st.just(Tally.age)
)


@given(st.lists(steps, max_size=30))
def test_sums_are_those_of_the_objects_whatever_happens(
    taken: list[Callable[[Tally], None]],
) -> None:
    tally = Tally()

    for step in taken:
        step(tally)

    held = [entry for one in range(6) if (entry := tally.entry(one)) is not None]
    assert tally.objects == len(held)
    assert tally.unassigned == sum(one.shard is None for one in held)
    for name in FIVE[:3]:
        assert tally.on(name) == sum(one.shard == name for one in held)
        for group in (1, 2):
            there = [group in one.groups and one.member_on == name for one in held]
            assert tally.members_of(group).get(name, 0) == sum(there)
    assert all(
        tally.on(name) >= tally.staying_on(name) >= tally.pinned_on(name) >= 0 for name in FIVE
    )
