"""Moves that are directed: the room is kept, the direction followed, and dropped if it is bad."""

from dataclasses import replace

import pytest

from sharder.core.admission.answers import Decision
from sharder.core.api.meta import PartialObject
from sharder.core.leases.shard import Shard
from sharder.core.movement.desired import choose, objection
from sharder.core.movement.planner import PAUSED, plan_directed, plan_displaced, plan_main
from sharder.core.movement.step import Assign, Drain, Keep, Withdraw
from sharder.core.names import (
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ShardName,
    pin_label,
)
from sharder.core.placement.counts import Entry
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.admissions import update
from tests.support.values import DEMO, NEXT, WIDGETS, A, B, C, obj
from tests.support.values_placement import bounded, shard
from tests.support.values_steering import APART, known, steered

PIN = pin_label(DEMO)
TO_B = {NEXT: B}
HOME, GOAL, OTHER = (
    shard(name, region="north", zone="north-1", pool="blue") for name in (A, B, C)
)
ASKING = {WANTED_REGION_LABEL: "north", WANTED_ZONE_LABEL: "north-1", POOL_LABEL: "blue"}
MANY = bounded(per_shard=5)
MEANWHILE = "it has been moved, pinned or deleted since"


def acknowledged(by: RingSnapshot, old: PartialObject) -> Decision:
    """Answer the acknowledgement of a Widget's owner."""
    labels = {
        k: v for k, v in (old.metadata.labels or {}).items() if ".alpha" not in k or k == PIN
    }
    new = obj(WIDGETS, old.metadata.name, labels=labels, annotations=old.metadata.annotations)
    return update(old, new, by=by)


def directed(name: str = "w", owner: str | None = A, **labels: str) -> PartialObject:
    """A draining object that goes to B."""
    return obj(WIDGETS, name, owner=owner, drain="true", labels=labels, annotations=TO_B)


bad = pytest.mark.parametrize(
    ("goal", "held"),
    [
        (replace(GOAL, cordoned=True), 0),
        (replace(GOAL, evacuating=True), 0),
        (replace(GOAL, region="south"), 0),
        (replace(GOAL, zone="north-2"), 0),
        (replace(GOAL, pool="green"), 0),
        (GOAL, 5),
        (None, 0),
    ],
    ids=["cordoned", "evacuating", "region", "zone", "pool", "full", "gone"],
)


def going_to(goal: Shard | None, held: int) -> RingSnapshot:
    shards = [HOME, OTHER] if goal is None else [HOME, OTHER, goal]
    return steered(*shards, spec=MANY, held={A: 2, B: held, C: 1})


@bad
def test_a_released_object_never_goes_to_a_shard_that_cannot_have_it(
    goal: Shard | None, held: int
) -> None:
    ring = going_to(goal, held)
    moving = known(ring, directed(**ASKING))

    assert acknowledged(ring, moving).assigned in {A, C}


@pytest.mark.parametrize("annotation", ["", "no name!", "no-such-shard"])
def test_a_direction_to_no_valid_shard_is_ignored(annotation: str) -> None:
    ring = going_to(GOAL, 0)
    moving = known(ring, obj(owner=A, drain="true", annotations={NEXT: annotation}))

    assert plan_main(ring, moving) == Withdraw()
    assert ring.entry_of(moving).heading in {None, "no-such-shard"}


def test_the_room_at_the_goal_is_kept_for_what_is_on_its_way() -> None:
    ring = going_to(GOAL, 4)
    moving = known(ring, directed())
    second = known(ring, obj(WIDGETS, "second", owner=A))

    late = {choose(ring, obj(WIDGETS, f"w-{number}")).shard for number in range(40)}

    assert B not in late
    assert objection(ring, second, B) == "it is full: 5 of 5 objects"
    assert choose(ring, moving).shard == B


# Where objects are directed that have to go


@pytest.mark.parametrize(
    ("pin", "held", "to"), [(None, 0, None), (B, 4, B), (B, 5, None), (A, 0, None)]
)
def test_what_is_one_too_many_is_directed_only_to_its_pin_if_there_is_room(
    pin: ShardName | None, held: int, to: ShardName | None
) -> None:
    ring = steered(HOME, GOAL, OTHER, spec=MANY, held={A: 5, B: held})
    labels: dict[str, str] = {PIN: pin} if pin else {}

    step = plan_displaced(ring, known(ring, obj(owner=A, labels=labels)), A)

    assert isinstance(step, Drain)
    assert (step.shard, step.to) == (A, to)


# Directed moves


@pytest.mark.parametrize(
    ("owner", "drain", "target", "why"),
    [
        (C, None, B, MEANWHILE),
        (A, "true", B, MEANWHILE),
        (A, None, ShardName("no-such-shard"), "one of the two shards is no longer available"),
        (A, None, C, "it is full: 5 of 5 objects"),
    ],
)
def test_a_directed_move_that_has_no_sense_any_more_is_left_undone(
    owner: str, drain: str | None, target: ShardName, why: str
) -> None:
    ring = steered(HOME, GOAL, OTHER, spec=MANY, held={C: 5})

    found = known(ring, obj(owner=owner, drain=drain))

    assert plan_directed(ring, found, A, target) == Keep(why)


def test_what_was_released_keeps_its_room_until_the_leader_has_assigned_it() -> None:
    ring = going_to(GOAL, 4)
    waiting = known(ring, obj(WIDGETS, "w", labels=ASKING, annotations=TO_B))

    latecomer = choose(ring, obj(WIDGETS, "new", labels=ASKING))

    assert latecomer.shard != B
    assert plan_main(ring, waiting) == Assign(B)
    assert ring.entry_of(waiting) == Entry(None, heading=B)


def test_what_is_on_its_way_is_one_of_its_group_where_it_goes() -> None:
    by = steered(HOME, GOAL, OTHER, spec=APART)
    first = obj(WIDGETS, "w", owner=A, drain="true", labels={"app": "web"}, annotations=TO_B)
    second = known(by, obj(WIDGETS, "x", owner=A, labels={"app": "web"}))
    known(by, first)

    assert plan_directed(by, second, A, B) == Keep("it holds a member of the group")
    assert plan_directed(by, second, A, C) == Drain(A, C)


def test_nothing_is_directed_while_movement_is_paused() -> None:
    ring = steered(HOME, GOAL, paused=True)

    assert plan_directed(ring, known(ring, obj(owner=A)), A, B) == PAUSED
