"""Plans of a ring whose strategy sticks: reservations are kept, excess is drained."""

from dataclasses import replace

import pytest

from sharder.core.keys import main_key
from sharder.core.movement.planner import (
    PAUSED,
    Parents,
    keep_priority_of,
    plan_displaced,
    plan_handover,
    reservation_of,
)
from sharder.core.movement.step import Assign, Drain, Keep, Send, Step, Withdraw
from sharder.core.names import pin_label
from sharder.core.placement.counts import Entry
from sharder.core.placement.tally import Reservation
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, C, obj, snapshot
from tests.support.values_placement import bounded, shard
from tests.support.values_steering import counted, steered

PIN = pin_label(DEMO)


def test_an_object_that_is_sent_has_its_room_where_it_goes() -> None:
    ring, tally = counted(1)
    first, second = obj(WIDGETS, "x", owner=C), obj(WIDGETS, "y", owner=C)

    for lost in (first, second):
        step = plan_handover(ring, lost)
        reservation = reservation_of(ring, lost, step)
        assert isinstance(step, Send)
        assert reservation is not None
        tally.assume(reservation)

    goals = {tally.entry(ring.identity_of(each)) for each in (first, second)}
    assert {entry.heading for entry in goals if entry is not None} == {A, B}
    assert isinstance(plan_handover(ring, obj(WIDGETS, "z", owner=C)), Keep)


def test_a_pin_to_another_shard_does_not_speak_for_staying() -> None:
    ring, _ = counted(5)

    assert keep_priority_of(ring, obj(labels={PIN: A}, owner=A), A).pinned
    assert not keep_priority_of(ring, obj(labels={PIN: B}, owner=A), A).pinned


NO_MORE = Keep("it no longer counts against its shard's ceiling")


@pytest.mark.parametrize(
    ("owner", "drain", "held", "paused", "step"),
    [
        (A, None, 3, False, Drain(A)),
        (A, "true", 3, False, NO_MORE),
        (B, None, 3, False, NO_MORE),
        (A, None, 2, False, Keep("its shard has room for it again")),
        (A, None, 3, True, PAUSED),
    ],
)
def test_the_excess_of_a_shard_is_drained_once(
    owner: str, drain: str | None, held: int, paused: bool, step: Step
) -> None:
    ring = steered(shard(A), shard(B), spec=bounded(per_shard=2), held={A: held}, paused=paused)

    assert plan_displaced(ring, obj(owner=owner, drain=drain), A) == step


@pytest.mark.parametrize(
    ("step", "entry"),
    [
        (Assign(B), Entry(B)),
        (Drain(A, B), Entry(A, draining=True, heading=B)),
        (Drain(A), Entry(A, draining=True)),
        (Withdraw(), Entry(A)),
        (Keep("in place"), None),
    ],
)
def test_a_step_says_how_its_object_will_count(step: Step, entry: Entry | None) -> None:
    ring, _ = counted(2)
    known = obj(owner=A)

    expected = None if entry is None else Reservation(ring.identity_of(known), entry, 7)

    assert reservation_of(ring, known, step) == expected


def test_a_request_to_release_nothing_is_withdrawn_without_a_count() -> None:
    ring, _ = counted(2)

    assert reservation_of(ring, obj(), Withdraw()) is None
    assert reservation_of(snapshot(), obj(owner=C), Drain(C)) is None


def test_a_child_of_an_unassigned_parent_out_of_scope_goes_to_the_highest_score() -> None:
    snapshot = replace(counted(3)[0], namespaces=frozenset())
    parents, parent = Parents(), obj(SECRETS, "s")

    parents.note(snapshot, parent)

    highest = snapshot.placer.highest(main_key(parent))
    assert parents.shard_for(snapshot, obj(CONFIGMAPS, "c", controlled_by="s")) == highest
