"""Facts about `sharder.core.placement.placer`: where objects go while two revisions are there."""

from collections.abc import Mapping

import pytest
from typing_extensions import override

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.movement.desired import choose, choose_anew, excess_of
from sharder.core.movement.planner import plan_displaced, plan_main
from sharder.core.movement.step import Drain, Keep, Withdraw
from sharder.core.names import WANTED_ZONE_LABEL, ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice
from tests.support.values import NEXT, WIDGETS, A, B, C, D, obj
from tests.support.values_placement import (
    Members,
    bounded,
    demand,
    layout,
    placer,
    shard,
    tally,
)
from tests.support.values_steering import APART, FOLLOWING, STICKING, known, steered

OLD, NEW = "1", "2"

OLD_A, OLD_B = (shard(name, revision=OLD, since=1.0) for name in (A, B))
NEW_C, NEW_D = (shard(name, revision=NEW, since=2.0) for name in (C, D))
MIXED = (OLD_A, OLD_B, NEW_C, NEW_D)

every_strategy = pytest.mark.parametrize(
    "spec", [*STICKING, *FOLLOWING], ids=lambda spec: spec.strategy
)
sticking = pytest.mark.parametrize("spec", STICKING, ids=lambda spec: spec.strategy)
following = pytest.mark.parametrize("spec", FOLLOWING, ids=lambda spec: spec.strategy)


class Asked(Members):
    """Counts how often the members of a group were asked for."""

    def __init__(self, on: Mapping[ShardName, int]) -> None:
        super().__init__(on)
        self.asked = 0

    @override
    def members_of(self, group: int) -> Mapping[ShardName, int]:
        self.asked += 1
        return super().members_of(group)


def moving(key: str, group: int = 0) -> Demand:
    return demand(key, group=group, moves=True) if group else demand(key, moves=True)


def targets(of: Placer, counts: Tally) -> set[ShardName | None]:
    return {of.place(moving(f"object-{number}"), counts).shard for number in range(40)}


# When it is one


@pytest.mark.parametrize(
    ("shards", "newest"),
    [
        ((), None),
        ((shard(A), shard(B)), None),
        ((shard(A), NEW_C), None),
        ((OLD_A, OLD_B), None),
        ((OLD_A, NEW_C), NEW),
        ((OLD_A, NEW_C, shard(B, since=9.0)), NEW),
        ((shard(A, revision=OLD, since=3.0), NEW_C), OLD),
        ((OLD_A, shard(C, revision=NEW, since=2.0, ready=False)), OLD),
        ((shard(A, revision=OLD, ready=False), shard(C, revision=NEW, ready=False)), NEW),
    ],
    ids=[
        "no shard",
        "no shard has a revision",
        "one shard has none",
        "all have the same",
        "two revisions",
        "a shard without a revision does not count",
        "a rollback",
        "the new one is not ready",
        "no shard is ready",
    ],
)
def test_the_newest_revision_is_that_of_the_ready_shard_that_took_its_lease_last(
    shards: tuple[Shard, ...], newest: str | None
) -> None:
    assert layout(*shards).newest == newest


def test_shards_that_are_not_available_are_no_rollout() -> None:
    assert layout(OLD_A, away=(NEW_C,)).newest is None


@following
def test_the_time_at_which_a_lease_was_taken_changes_nothing_but_the_newest_revision(
    spec: PlacementSpec,
) -> None:
    of = placer(OLD_A, NEW_C, spec=spec)
    later = layout(OLD_A, shard(C, revision=NEW, since=5.0), spec=spec)
    back = layout(shard(A, revision=OLD, since=5.0), NEW_C, spec=spec)

    assert of.decides_like(later)
    assert not of.decides_like(back)


@sticking
def test_where_objects_stick_that_time_changes_nothing_however_often_it_is_written(
    spec: PlacementSpec,
) -> None:
    of = placer(OLD_A, NEW_C, spec=spec)

    assert of.decides_like(layout(shard(A, revision=OLD, since=5.0), NEW_C, spec=spec))


# Where objects go


@every_strategy
def test_what_moves_goes_to_the_newest_revision(spec: PlacementSpec) -> None:
    of = placer(*MIXED, spec=spec)

    assert targets(of, tally({A: 5, B: 5, C: 3, D: 3})) <= {C, D}


@sticking
def test_what_moves_goes_to_the_shard_of_them_with_the_fewest_objects(
    spec: PlacementSpec,
) -> None:
    of = placer(*MIXED, spec=spec)

    assert targets(of, tally({A: 9, B: 9, C: 3, D: 2})) == {D}
    assert targets(of, tally({A: 9, B: 9, C: 2, D: 2})) == {C}


def test_what_is_on_its_way_to_a_shard_is_as_good_as_there() -> None:
    counts = tally({A: 9, B: 9, C: 2, D: 2})
    for number in range(2):
        counts.see("more", -1 - number, Entry(A, draining=True, heading=C))

    assert targets(placer(*MIXED), counts) == {D}


@following
def test_what_moves_is_hashed_among_the_newest(spec: PlacementSpec) -> None:
    of, alone = placer(*MIXED, spec=spec), placer(NEW_C, NEW_D, spec=spec)
    keys = [f"object-{number}" for number in range(40)]

    there = [of.place(moving(key), Tally()) for key in keys]

    assert there == [alone.place(demand(key), Tally()) for key in keys]
    assert {choice.shard for choice in there} == {C, D}


@every_strategy
def test_new_objects_are_placed_over_all_shards(spec: PlacementSpec) -> None:
    of = placer(*MIXED, spec=spec)
    plain = placer(*(shard(name) for name in (A, B, C, D)), spec=spec)
    keys = [f"object-{number}" for number in range(40)]

    there = [of.place(demand(key), Tally()).shard for key in keys]

    assert there == [plain.place(demand(key), Tally()).shard for key in keys]
    assert set(there) & {A, B}


def test_what_moves_goes_to_any_candidate_when_the_newest_are_full() -> None:
    of = placer(*MIXED, spec=bounded(per_shard=3))

    assert targets(of, tally({A: 3, B: 2, C: 3, D: 3})) == {B}


def test_what_moves_goes_to_any_candidate_when_the_newest_are_not_what_it_asks_for() -> None:
    of = placer(shard(A, revision=OLD, zone="north"), OLD_B, NEW_C)

    assert of.place(demand(zone="north", moves=True), Tally()) == Choice(A)


def test_members_of_a_group_that_have_to_be_apart_stay_apart() -> None:
    of, counts = placer(*MIXED, spec=APART), tally({A: 5, B: 5, C: 1, D: 5})
    counts.see("group", -1, Entry(C, (7,)))

    fewest = of.place(moving("object", 7), counts)
    counts.see("group", -2, Entry(D, (7,)))
    neither = of.place(moving("object", 7), counts)

    assert fewest == Choice(D)
    assert neither.shard in {A, B}


# What is not moved


@following
def test_what_is_on_a_shard_stays_there_though_its_key_leads_elsewhere(
    spec: PlacementSpec,
) -> None:
    ring = steered(*MIXED, spec=spec)

    steps = {plan_main(ring, obj(WIDGETS, f"w-{number}", owner=A)) for number in range(40)}
    asked = plan_main(ring, obj(owner=A, drain="true"))

    assert steps == {Keep("in place")}
    assert asked == Withdraw()


@following
def test_an_object_that_its_shard_cannot_have_moves_during_a_rollout(spec: PlacementSpec) -> None:
    ring = steered(OLD_A, OLD_B, shard(C, revision=NEW, since=2.0, zone="north"), spec=spec)

    step = plan_main(ring, obj(owner=A, labels={WANTED_ZONE_LABEL: "north"}))

    assert step == Drain(A)


@following
def test_what_an_evacuated_shard_has_moves_to_the_newest_revision(spec: PlacementSpec) -> None:
    leaving = shard(A, revision=OLD, since=1.0, evacuating=True)
    ring = steered(leaving, OLD_B, NEW_C, spec=spec)

    there = {choose(ring, obj(WIDGETS, f"w-{number}", owner=A)).shard for number in range(40)}

    assert there == {C}


def test_what_a_shard_has_above_its_even_part_stays_until_the_rollout_is_over() -> None:
    during, after = (
        steered(shard(A, revision=was), NEW_C, held={A: 8, C: 0}) for was in (OLD, NEW)
    )

    assert (excess_of(during), excess_of(after)) == ({}, {A: 4})


def test_a_drain_for_an_even_part_is_withdrawn_when_a_rollout_begins() -> None:
    ring = steered(OLD_A, NEW_C, held={A: 8})
    asked = known(ring, obj(owner=A, drain="true", annotations={NEXT: "no-such-shard"}))

    assert plan_main(ring, asked) == Withdraw()


def test_ceilings_that_are_declared_count_during_a_rollout() -> None:
    ring = steered(OLD_A, OLD_B, NEW_C, spec=bounded(per_shard=8), held={A: 8, B: 1})

    too_many = known(ring, obj(owner=A))

    assert excess_of(ring) == {A: 1}
    assert plan_displaced(ring, too_many, A) == Drain(A)
    assert choose_anew(ring, too_many).shard == C


def test_what_a_strategy_objects_to_is_worked_out_once_for_all_shards() -> None:
    names = [ShardName(f"shard-{number}") for number in range(20)]
    new = [shard(name, revision=NEW, since=2.0) for name in names]
    group = Asked(dict.fromkeys(names, 1))

    choice = placer(OLD_A, *new, spec=APART).place(moving("object", group=7), group)

    # Once for the objections, and once for the strategy's own choice among all of them.
    assert (choice.shard, group.asked) == (A, 2)
