"""Movement that is paused: no object is drained, and objects without a shard get one."""

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import (
    PAUSED,
    plan_displaced,
    plan_main,
)
from sharder.core.movement.step import Assign, Drain, Withdraw
from sharder.core.names import pin_label
from tests.support.values import DEMO, NEXT, WIDGETS, A, B, C, obj
from tests.support.values_placement import RENDEZVOUS, bounded, shard
from tests.support.values_steering import FOLLOWING, STICKING, known, steered, tally_of

PIN = pin_label(DEMO)
WORKING = [Standing.AVAILABLE, Standing.LEAVING, Standing.MISSING]

every_strategy = pytest.mark.parametrize(
    "spec", [*STICKING, *FOLLOWING], ids=lambda spec: spec.strategy
)


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


def test_the_excess_of_a_shard_stays_there() -> None:
    shards, limit = (shard(A), shard(B)), bounded(per_shard=2)
    moving, paused = (
        steered(*shards, spec=limit, held={A: 2}, paused=is_paused) for is_paused in (False, True)
    )
    steps = [plan_displaced(ring, known(ring, obj(owner=A)), A) for ring in (moving, paused)]

    assert steps == [Drain(A), PAUSED]
    assert (excess_of(moving), excess_of(paused)) == ({A: 1}, {})


def test_no_shard_has_too_many_while_nothing_is_counted() -> None:
    ring = steered(shard(A), shard(B), spec=bounded(per_shard=1), held={A: 2})
    tally_of(ring).synced = False

    assert excess_of(ring) == {}
    assert excess_of(steered(shard(A), spec=RENDEZVOUS)) == {}
