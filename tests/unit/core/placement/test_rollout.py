"""Facts about `sharder.core.placement.placer`: where objects go while two revisions are there."""

import pytest
from msgspec.structs import replace

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.movement.planner import plan_main
from sharder.core.movement.step import Keep, Withdraw
from sharder.core.names import ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.tally import Tally
from tests.support.values import WIDGETS, A, B, C, D, obj
from tests.support.values_placement import demand, layout, placer, shard, tally
from tests.support.values_steering import APART, FOLLOWING, STICKING, steered

OLD, NEW = "1", "2"

OLD_A, OLD_B = (shard(name, revision=OLD, since=1.0) for name in (A, B))
NEW_C, NEW_D = (shard(name, revision=NEW, since=2.0) for name in (C, D))
MIXED = (OLD_A, OLD_B, NEW_C, NEW_D)

every_strategy = pytest.mark.parametrize(
    "spec", [*STICKING, *FOLLOWING], ids=lambda spec: spec.strategy
)
following = pytest.mark.parametrize("spec", FOLLOWING, ids=lambda spec: spec.strategy)


def moving(key: str, group: int = 0) -> Demand:
    return demand(key, group=group, moves=True) if group else demand(key, moves=True)


def targets(of: Placer, counts: Tally) -> set[ShardName | None]:
    return {of.place(moving(f"object-{number}"), counts).shard for number in range(40)}


# When it is one


NEWEST: dict[str, tuple[tuple[Shard, ...], str | None]] = {
    "no shard": ((), None),
    "no shard has a revision": ((shard(A), shard(B)), None),
    "one shard has none": ((shard(A), NEW_C), None),
    "all have the same": ((OLD_A, OLD_B), None),
    "two revisions": ((OLD_A, NEW_C), NEW),
    "a shard without a revision does not count": ((OLD_A, NEW_C, shard(B, since=9.0)), NEW),
    "a rollback": ((shard(A, revision=OLD, since=3.0), NEW_C), OLD),
    "the new one is not ready": ((OLD_A, shard(C, revision=NEW, since=2.0, ready=False)), OLD),
    "no shard is ready": (
        (shard(A, revision=OLD, ready=False), shard(C, revision=NEW, ready=False)),
        NEW,
    ),
}


@pytest.mark.parametrize("case", NEWEST)
def test_the_newest_revision_is_that_of_the_ready_shard_that_took_its_lease_last(
    case: str,
) -> None:
    shards, newest = NEWEST[case]

    assert layout(*shards).newest == newest


# Where objects go


@every_strategy
def test_what_moves_goes_to_the_newest_revision(spec: PlacementSpec) -> None:
    of = placer(*MIXED, spec=spec)

    assert targets(of, tally({A: 5, B: 5, C: 3, D: 3})) <= {C, D}


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


def test_an_object_that_no_new_shard_can_have_goes_to_an_old_one() -> None:
    counts = tally({})
    for number, name in enumerate((C, D)):
        counts.see("group", number, Entry(name, (7,)))

    assert placer(*MIXED, spec=APART).place(moving("object", group=7), counts).shard in {A, B}


def test_the_new_shards_need_not_have_the_zones_of_a_group_alone() -> None:
    old = [shard(name, revision=OLD, zone=zone) for name, zone in ((A, "1"), (B, "2"))]
    of = placer(
        *old, shard(C, revision=NEW, zone="1", since=2.0), spec=replace(APART, min_zones=2)
    )
    counts = tally({})
    counts.see("group", 1, Entry(A, (7,)))

    assert of.place(moving("object", group=7), counts).shard == C
