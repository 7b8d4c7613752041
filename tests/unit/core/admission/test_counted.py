"""Admission where objects are counted: at most so many on a shard, and each counts at once."""

from sharder.core.admission.acknowledgement import Writer
from sharder.core.names import ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.tally import Reservation
from tests.support.admissions import create, update
from tests.support.values import CONFIGMAPS, NEXT, SECRETS, A, B, obj
from tests.support.values_steering import counted

SHARD = Writer(username="system:serviceaccount:default:controller")


def test_an_object_that_is_released_goes_where_it_is_directed_while_there_is_room() -> None:
    for held, goal in ((2, B), (3, A)):
        snapshot, tally = counted(3, {B: held})
        before = obj(owner=A, drain="true", annotations={NEXT: B})
        tally.see("w", snapshot.identity_of(before), snapshot.entry_of(before))

        decision = update(before, obj(annotations={NEXT: B}), writer=SHARD, by=snapshot)

        assert (decision.assigned, decision.reservation) == (
            goal,
            Reservation(snapshot.identity_of(before), Entry(goal), 7),
        )


def test_what_another_replica_has_chosen_for_the_same_request_stands() -> None:
    snapshot, _ = counted(3, {B: 3})
    before = obj(owner=A, drain="true")

    decision = update(before, obj(owner=B), writer=SHARD, by=snapshot)

    assert (decision.outcome, decision.operations) == ("unchanged", ())
    assert decision.reservation == Reservation(snapshot.identity_of(before), Entry(B), 7)


def test_a_child_of_an_owner_whose_shard_is_gone_waits() -> None:
    snapshot, tally = counted()
    tally.see("s", snapshot.identity_of(obj(SECRETS, "parent")), Entry(ShardName("gone")))

    child = obj(CONFIGMAPS, "c", controlled_by="parent")

    decision = create(child, of=CONFIGMAPS, writer=SHARD, by=snapshot)

    assert decision.outcome == "no_shard"
