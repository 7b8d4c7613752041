"""What is steered: a shard that is evacuated gets nothing back, and a pause moves nothing."""

import pytest

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import NOT_COUNTED, choose, excess_of
from sharder.core.movement.planner import PAUSED, plan_displaced, plan_main
from sharder.core.movement.step import Assign, Drain, Keep, Withdraw
from sharder.core.movement.step_patch import patch_of
from sharder.core.names import ShardName, pin_label
from tests.support.json_patch import written
from tests.support.values import DEMO, NEXT, WIDGETS, A, B, C, obj
from tests.support.values_placement import RENDEZVOUS, bounded, shard
from tests.support.values_steering import FOLLOWING, STICKING, known, steered, tally_of

PIN = pin_label(DEMO)
LEAVING = shard(A, evacuating=True)
STAYING = shard(B)

every_strategy = pytest.mark.parametrize(
    "spec", [*STICKING, *FOLLOWING], ids=lambda spec: spec.strategy
)


@every_strategy
def test_it_gets_nothing_new(spec: PlacementSpec) -> None:
    ring = steered(LEAVING, STAYING, shard(C), spec=spec)

    new = [choose(ring, obj(WIDGETS, f"w-{number}")).shard for number in range(40)]

    assert set(new) == {B, C}


@every_strategy
def test_each_of_its_objects_is_drained_to_another_shard(spec: PlacementSpec) -> None:
    ring = steered(LEAVING, STAYING, spec=spec)

    step = plan_main(ring, known(ring, obj(owner=A)))

    assert step == Drain(A)
    assert isinstance(step, Drain)
    assert step.to == B


@every_strategy
def test_a_drain_is_withdrawn_where_no_other_shard_can_have_the_object(
    spec: PlacementSpec,
) -> None:
    ring = steered(LEAVING, spec=spec)

    assert plan_main(ring, known(ring, obj(owner=A, drain="true"))) == Withdraw()
    assert plan_main(ring, known(ring, obj(owner=A))) == Keep(
        "no shard can take the object: shard-a: it is being evacuated"
    )


def test_the_excess_of_a_shard_without_pool_is_drained_once_without_room_elsewhere() -> None:
    spec = PlacementSpec(
        strategy=StrategyName.BOUNDED_LOAD, per_shard_capacity=2, require_pool=True
    )
    ring = steered(shard(A), shard(B, pool="blue"), spec=spec, held={A: 2, B: 2})
    step = plan_displaced(ring, known(ring, obj(owner=A)), A)

    later = plan_main(ring, known(ring, obj(owner=A, drain="true")))

    assert step == Drain(A)
    assert isinstance(later, Keep)


def test_its_drains_are_not_withdrawn_before_everything_is_counted() -> None:
    ring = steered(LEAVING, STAYING)
    tally_of(ring).synced = False

    assert plan_main(ring, known(ring, obj(owner=A, drain="true"))) == Keep(NOT_COUNTED.reason)


@every_strategy
def test_a_pin_to_it_does_not_count(spec: PlacementSpec) -> None:
    ring = steered(LEAVING, STAYING, spec=spec)
    pinned = {PIN: A}

    new, there, elsewhere = (
        choose(ring, known(ring, obj(WIDGETS, name, owner=owner, labels=pinned))).shard
        for name, owner in (("new", None), ("there", A), ("elsewhere", B))
    )

    assert (new, there, elsewhere) == (B, B, B)


def test_the_room_that_its_objects_take_elsewhere_is_an_even_part() -> None:
    ring = steered(LEAVING, STAYING, shard(C), held={B: 3, C: 3})
    going = []

    for number in range(4):
        found = known(ring, obj(WIDGETS, f"w-{number}", owner=A))
        step = plan_main(ring, found)
        assert isinstance(step, Drain)
        going.append(step.to)
        way = {NEXT: str(step.to)}
        known(ring, obj(WIDGETS, f"w-{number}", owner=A, drain="true", annotations=way))

    assert sorted(map(str, going)) == [B, B, C, C]


@every_strategy
def test_a_pin_to_a_cordoned_shard_leaves_no_object_without_owner_that_was_evacuated(
    spec: PlacementSpec,
) -> None:
    ring = steered(LEAVING, STAYING, shard(C, cordoned=True), spec=spec)
    pinned = known(ring, obj(WIDGETS, owner=A, labels={PIN: C}))
    step = plan_main(ring, pinned)
    asked = known(ring, written(pinned, patch_of(ring, pinned, step)))

    # Its shard releases it while no webhook is there to assign it to another one.
    free = known(ring, obj(WIDGETS, labels={PIN: C}, annotations=asked.metadata.annotations))

    assert plan_main(ring, free) == Assign(B)


# Movement that is paused

WORKING = [Standing.AVAILABLE, Standing.LEAVING, Standing.MISSING]


@every_strategy
@pytest.mark.parametrize("standing", WORKING)
def test_no_object_is_taken_from_a_shard_that_might_be_working(
    spec: PlacementSpec, standing: Standing
) -> None:
    shards = shard(A, evacuating=True), shard(B)
    ring = steered(*shards, spec=spec, paused=True, standings={A: standing})

    steps = {
        plan_main(ring, known(ring, obj(WIDGETS, f"w-{n}", owner=A, labels={PIN: B})))
        for n in range(20)
    }

    assert steps == {PAUSED}


@every_strategy
@pytest.mark.parametrize("standing", WORKING)
def test_open_drains_are_withdrawn(spec: PlacementSpec, standing: Standing) -> None:
    ring = steered(shard(A), shard(B), spec=spec, paused=True, standings={A: standing})
    draining = known(ring, obj(owner=A, drain="true", annotations={NEXT: B}))

    assert plan_main(ring, draining) == Withdraw()


@every_strategy
def test_objects_without_shard_and_of_a_lost_shard_are_assigned(spec: PlacementSpec) -> None:
    ring = steered(shard(B), spec=spec, paused=True)

    steps = [plan_main(ring, known(ring, obj(WIDGETS, f"on-{o}", owner=o))) for o in (None, C)]
    steps.append(plan_main(ring, known(ring, obj(owner=C, drain="true", annotations={NEXT: B}))))

    assert steps == [Assign(B)] * 3


@pytest.mark.parametrize(
    ("paused", "synced", "excess"), [(False, True, {A: 1}), (True, True, {}), (False, False, {})]
)
def test_no_shard_has_too_many_while_nothing_is_counted_or_moved(
    paused: bool, synced: bool, excess: dict[ShardName, int]
) -> None:
    ring = steered(shard(A), shard(B), spec=bounded(per_shard=1), held={A: 2}, paused=paused)
    tally_of(ring).synced = synced

    assert excess_of(ring) == excess
    assert excess_of(steered(shard(A), spec=RENDEZVOUS)) == {}
