"""Facts about `sharder.core.placement.placer`: which shards can have an object, and why not."""

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.placement.counts import NO_COUNTS
from sharder.core.placement.tally import Tally
from tests.support.values import A, B, C, D
from tests.support.values_placement import (
    BOUNDED,
    CONSISTENT,
    RENDEZVOUS,
    bounded,
    demand,
    placer,
    shard,
    tally,
)

every_strategy = pytest.mark.parametrize(
    "spec", [BOUNDED, RENDEZVOUS, CONSISTENT], ids=lambda spec: spec.strategy
)


@every_strategy
def test_the_reason_names_a_few_shards_each(spec: PlacementSpec) -> None:
    of = placer(shard(A, cordoned=True), shard(B), shard(C, zone="z1"), spec=spec)

    assert of.place(demand(zone="z2"), NO_COUNTS).reason == (
        "no shard can take the object: shard-a: it is cordoned; "
        "shard-b: the object asks for the zone z2; shard-c: the object asks for the zone z2"
    )


def test_where_every_shard_is_cordoned_it_is_not_room_that_is_missing() -> None:
    assert placer(shard(A, cordoned=True)).has_room(Tally())
    assert not placer(shard(A), spec=bounded(per_shard=1)).has_room(tally({A: 1}))


# Pins to shards that get nothing, and moves that users ask for


PINS = {
    "no pin": (demand(), None),
    "to a shard that does not exist": (demand(pin=D), None),
    "new": (demand(pin=B), B),
    "elsewhere": (demand(on=A, pin=B), B),
    "new, to a cordoned shard": (demand(pin=C), C),
    "there": (demand(on=C, pin=C), C),
    "elsewhere, to a cordoned shard": (demand(on=A, pin=C), None),
    "released, to a cordoned shard": (demand(pin=C, moves=True), None),
}


@pytest.mark.parametrize("case", PINS)
@every_strategy
def test_a_pin_to_a_cordoned_shard_lets_new_objects_wait_and_others_be(
    spec: PlacementSpec, case: str
) -> None:
    asking, goal = PINS[case]
    of = placer(shard(A), shard(B), shard(C, cordoned=True), spec=spec)

    assert of.goal_of(asking) == goal
    assert (of.place(asking, Tally()).shard is None) is (goal == C and asking.current is None)
