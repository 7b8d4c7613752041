"""Where an object belongs when the ring's strategy sticks, and when it follows."""

from dataclasses import replace

import msgspec
import pytest

from sharder.core.api.meta import OwnerReference, PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import (
    admit,
    choose,
    choose_anew,
    expected_of,
    is_overfull,
    reservation_on,
)
from sharder.core.names import ShardName, pin_label
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import identity_of
from sharder.core.placement.tally import Reservation, Tally
from tests.support.values import CONFIGMAPS, DEMO, NEXT, SECRETS, WIDGETS, A, B, C, obj
from tests.support.values_placement import RENDEZVOUS, shard
from tests.support.values_steering import counted, steered

AVAILABLE, GONE = Standing.AVAILABLE, Standing.GONE
PIN = pin_label(DEMO)
DRAINING = "true"
FOLLOWING = steered(shard(A), shard(B), spec=RENDEZVOUS)


def foreign_child(owner: str) -> PartialObject:
    """What a ReplicaSet controls, which is no resource of the ring."""
    child = obj(CONFIGMAPS, "child")
    reference = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=owner, uid=owner, controller=True
    )
    meta = msgspec.structs.replace(child.metadata, owner_references=[reference])
    return msgspec.structs.replace(child, metadata=meta)


def seen(tally: Tally, found: PartialObject, entry: Entry) -> PartialObject:
    tally.see("widgets", identity_of(main_key(found)), entry)
    return found


def test_a_reservation_is_kept_while_its_shard_is_available() -> None:
    snapshot, tally = counted(5, {A: 0, B: 5})
    new = obj()

    tally.assume(Reservation(snapshot.identity_of(new), Entry(B)))

    assert choose(snapshot, new).shard == B
    assert choose_anew(snapshot, new).shard == B


def test_a_reservation_on_a_shard_that_is_gone_is_ignored() -> None:
    snapshot, tally = counted(standings={A: AVAILABLE, B: GONE})
    new = obj()

    tally.assume(Reservation(snapshot.identity_of(new), Entry(B)))

    assert choose(snapshot, new).shard == A


def test_an_object_that_had_a_shard_does_not_wait_for_the_cordoned_one_it_is_pinned_to() -> None:
    snapshot, _ = counted(cordoned=B)

    assert choose(snapshot, obj(owner=C, labels={PIN: B})).shard == A
    assert choose_anew(snapshot, obj(owner=A, labels={PIN: B})).shard == A


def test_a_draining_object_belongs_elsewhere_while_there_is_no_room() -> None:
    snapshot, tally = counted(5, {A: 5, B: 0})
    leaving = seen(tally, obj(owner=A, drain=DRAINING), Entry(A, draining=True))

    assert choose(snapshot, leaving).shard == B


def test_a_draining_object_stays_on_a_shard_that_was_cordoned_meanwhile() -> None:
    snapshot, tally = counted(5, {A: 5, B: 0}, cordoned=A)
    leaving = seen(tally, obj(owner=A, drain=DRAINING), Entry(A, draining=True))

    assert choose(snapshot, leaving).shard == A


def test_a_shard_has_too_many_only_above_its_ceiling() -> None:
    snapshot, _ = counted(5, {A: 6, B: 5})

    assert [is_overfull(snapshot, s) for s in (A, B)] == [True, False]
    assert not is_overfull(snapshot, ShardName("gone"))
    assert not is_overfull(FOLLOWING, A)


@pytest.mark.parametrize("owner", [None, B])
def test_a_child_is_expected_where_its_owner_is_counted(owner: ShardName | None) -> None:
    snapshot, tally = counted()
    if owner is not None:
        tally.see("secrets", identity_of("/Secret/default/parent"), Entry(owner))

    child = obj(CONFIGMAPS, "child", controlled_by="parent")

    assert expected_of(snapshot, child) == owner


def test_a_child_of_what_is_no_main_object_is_expected_where_the_key_of_that_is_drawn() -> None:
    snapshot, tally = counted()
    children = [foreign_child(f"owner-{number}") for number in range(20)]
    before = [expected_of(snapshot, child) for child in children]

    for number in range(9):
        tally.see("more", number, Entry(A))

    assert set(before) == {A, B}
    assert [expected_of(snapshot, child) for child in children] == before
    assert expected_of(counted(standings={A: GONE})[0], children[0]) is None


def test_a_child_waits_while_it_is_not_known_what_kinds_the_ring_has() -> None:
    snapshot, _ = counted()
    unknown = replace(snapshot, kinds={})

    assert expected_of(unknown, foreign_child("owner")) is None


def test_an_object_that_is_there_already_is_not_counted_anew_when_it_is_created() -> None:
    snapshot, tally = counted()
    there, bare = obj(WIDGETS, "there"), obj(WIDGETS, "bare")
    seen(tally, there, Entry(A))
    seen(tally, bare, Entry(None))

    assert admit(snapshot, there)[1] is None
    assert admit(snapshot, bare) == (
        choose_anew(snapshot, bare),
        Reservation(snapshot.identity_of(bare), Entry(choose_anew(snapshot, bare).shard), 7),
    )


def test_room_for_a_pinned_object_is_taken_while_it_is_on_its_way() -> None:
    snapshot, tally = counted(3, {A: 0, B: 2})
    first, second = (obj(WIDGETS, name, owner=A, labels={PIN: B}) for name in ("first", "second"))
    for pinned in (first, second):
        seen(tally, pinned, Entry(A))
    reservation = reservation_on(snapshot, first, A, draining=True, heading=B)
    assert reservation is not None

    before = choose(snapshot, second).shard
    tally.assume(reservation)
    under_way = obj(
        WIDGETS, "first", owner=A, drain=DRAINING, labels={PIN: B}, annotations={NEXT: B}
    )

    assert before == B
    assert choose(snapshot, second).shard is None
    assert choose(snapshot, under_way).shard == B
    assert choose_anew(snapshot, under_way).shard == B
    assert snapshot.entry_of(under_way) == reservation.entry


def test_what_a_shard_that_is_gone_was_to_release_takes_no_room_from_each_other() -> None:
    snapshot, tally = counted(1, {B: 0}, standings={A: GONE, B: AVAILABLE})
    lost = [
        obj(WIDGETS, name, owner=A, drain=DRAINING, labels={PIN: B})
        for name in ("first", "second")
    ]
    for one in lost:
        seen(tally, one, snapshot.entry_of(one))

    first = choose(snapshot, lost[0])
    reservation = reservation_on(snapshot, lost[0], B)
    assert reservation is not None
    tally.assume(reservation)

    assert first.shard == B
    assert choose(snapshot, lost[1]).shard is None


def test_a_child_is_expected_where_the_key_of_its_owner_leads() -> None:
    child = obj(CONFIGMAPS, "child", controlled_by="parent")

    assert expected_of(FOLLOWING, child) == choose_anew(FOLLOWING, obj(SECRETS, "parent")).shard
    assert expected_of(FOLLOWING, obj(CONFIGMAPS, "orphan")) is None
