"""Plans of a ring whose strategy sticks: reservations are kept, excess is drained."""

import pytest

from sharder.core.keys import main_key
from sharder.core.leases.membership import Members, Standing
from sharder.core.movement.planner import (
    Owners,
    Reservations,
    keep_priority_of,
    plan_displaced,
    reservation_of,
)
from sharder.core.movement.step import Assign, Drain, Keep, Step, Withdraw
from sharder.core.names import pin_label
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.counting import bounded
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    available,
    members,
    obj,
    snapshot,
)

PIN = pin_label(DEMO)


def counted(capacity: int, of: Members | None = None) -> tuple[RingSnapshot, Tally]:
    found = build(
        bounded(capacity),
        members=available(A, B) if of is None else of,
        namespaces=frozenset({"default"}),
    )
    assert found.tally is not None
    found.tally.synced = True
    return found, found.tally


def fill(tally: Tally, shard: str, many: int) -> None:
    for number in range(many):
        tally.see(shard, hash((shard, number)), Entry(A if shard == A else B))


def test_a_reservation_counts_at_once_and_is_given_back_if_it_was_not_written() -> None:
    ring, tally = counted(1)
    reservations = Reservations(ring)

    steps = [reservations.plan(obj(WIDGETS, name)) for name in "xyz"]
    reserved = tally.by_shard()
    reservations.give_back()

    assert [type(step) for step in steps] == [Assign, Assign, Keep]
    assert reserved == {A: 1, B: 1}
    assert tally.by_shard() == {}


def test_what_was_never_reserved_gives_nothing_back() -> None:
    ring, tally = counted(5)
    reservations = Reservations(ring)
    reserved = reservations.plan(obj(WIDGETS, "x"))
    assert isinstance(reserved, Assign)

    reservations.give_back_for(obj(WIDGETS, "y"))

    assert tally.by_shard() == {reserved.shard: 1}


def test_an_object_that_has_got_an_owner_meanwhile_is_left_alone() -> None:
    ring, _ = counted(5)
    reservations = Reservations(ring)
    reservations.plan(obj())

    assert reservations.keep(obj(owner=B)) == Keep("in place")


def test_a_reservation_is_kept_for_an_object_whose_shard_is_gone() -> None:
    ring, tally = counted(1, members({A: Standing.AVAILABLE, B: Standing.AVAILABLE}))
    lost, reservations = obj(owner=C), Reservations(ring)
    fill(tally, B, 1)
    first = reservations.plan(lost)
    reservations.give_back()
    tally.forget(ring.identity_of(lost))
    fill(tally, A, 1)

    assert first == reservations.keep(lost) == Assign(A)


def test_a_pin_to_another_shard_does_not_speak_for_staying() -> None:
    ring, _ = counted(5)

    assert keep_priority_of(ring, obj(labels={PIN: A}, owner=A), A).pinned
    assert not keep_priority_of(ring, obj(labels={PIN: B}, owner=A), A).pinned


def test_controlled_objects_follow_an_owner_whose_reservation_is_forgotten() -> None:
    ring, tally = counted(5)
    owners, reservations, secret = Owners(), Reservations(ring), obj(SECRETS, "s")

    step = reservations.plan(secret)
    owners.note(ring, secret, step)
    tally.forget(ring.identity_of(secret))

    assert isinstance(step, Assign)
    assert owners.shard_for(ring, obj(CONFIGMAPS, "c", controlled_by="s")) == step.shard


@pytest.mark.parametrize(
    ("owner", "drain", "step"),
    [
        (A, None, Drain(A)),
        (A, "true", Keep("it no longer counts against its shard's ceiling")),
        (B, None, Keep("it no longer counts against its shard's ceiling")),
    ],
)
def test_the_excess_of_a_shard_is_drained_once(owner: str, drain: str | None, step: Step) -> None:
    ring, tally = counted(2)
    fill(tally, A, 3)

    assert plan_displaced(ring, obj(owner=owner, drain=drain), A) == step


def test_an_object_that_has_room_again_is_not_drained() -> None:
    ring, tally = counted(2)
    fill(tally, A, 2)

    assert plan_displaced(ring, obj(owner=A), A) == Keep("its shard has room for it again")


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
    snapshot, _ = counted(3)
    owners, parent = Owners(), obj(SECRETS, "s")

    owners.leave(snapshot, parent)

    drawn = snapshot.placer.highest(main_key(parent))
    assert owners.shard_for(snapshot, obj(CONFIGMAPS, "c", controlled_by="s")) == drawn
