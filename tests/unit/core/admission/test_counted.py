"""Admission where objects are counted: at most so many on a shard, and each counts at once."""

from collections import Counter
from typing import Literal

import msgspec
import pytest

from sharder.core.admission.answers import Decision
from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing, PlacementSpec, StrategyName
from sharder.core.keys import main_key
from sharder.core.movement.acknowledgement import Writer
from sharder.core.names import GroupResource, ShardName, pin_label
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.placement.demand import identity_of
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    DRAIN,
    NEXT,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    available,
    obj,
    ring,
)

NO_SHARDERS = frozenset[str]()
SERVED = (Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),)
SHARD = Writer(username="system:serviceaccount:default:controller")


def counted(capacity: int = 3) -> tuple[RingSnapshot, Tally]:
    """The ring with BoundedLoad, counted, without any object yet."""
    placement = PlacementSpec(strategy=StrategyName.BOUNDED_LOAD, per_shard_capacity=capacity)
    spec = msgspec.structs.replace(ring().spec, placement=placement)
    limited: ControllerRing = msgspec.structs.replace(ring(), spec=spec)
    snapshot = build(
        limited, members=available(A, B), namespaces=frozenset({"default"}), served=SERVED
    )
    assert snapshot.tally is not None
    snapshot.tally.synced = True
    return snapshot, snapshot.tally


def asked(
    snapshot: RingSnapshot,
    new: PartialObject,
    old: PartialObject | None = None,
    *,
    of: GroupResource = WIDGETS,
    uid: str = "",
    writer: Writer = SHARD,
) -> Decision:
    operation: Literal["CREATE", "UPDATE"] = "CREATE" if old is None else "UPDATE"
    review = Review(operation=operation, uid=uid, resource=of, obj=new, old=old, writer=writer)
    return decide(review, snapshot, NO_SHARDERS)


def admitted(snapshot: RingSnapshot, new: PartialObject) -> ShardName | None:
    """Decide and count, as the webhook does."""
    decision = asked(snapshot, new)
    if decision.reservation is not None and snapshot.tally is not None:
        snapshot.tally.assume(decision.reservation)
    return decision.assigned


def test_no_shard_gets_more_than_its_ceiling_and_the_rest_waits_with_a_warning() -> None:
    snapshot, _ = counted(3)

    shards = Counter(admitted(snapshot, obj(WIDGETS, f"w-{n}")) for n in range(8))
    late = asked(snapshot, obj(WIDGETS, "late"))

    assert shards == {A: 3, B: 3, None: 2}
    assert (late.outcome, late.reservation) == ("no_shard", None)
    assert "full: 3 of 3" in late.warning


def test_an_object_that_is_admitted_again_counts_once_and_has_the_same_shard() -> None:
    snapshot, tally = counted(3)

    shards = {admitted(snapshot, obj()) for _ in range(5)}

    assert len(shards) == 1
    assert tally.objects == 1


def test_what_the_creator_says_of_the_owner_counts_for_nothing() -> None:
    snapshot, tally = counted(3)
    for number in range(3):
        tally.see("w", number, Entry(A))

    decision = asked(snapshot, obj(owner=A))

    assert decision.assigned == B


def test_nothing_is_assigned_before_everything_is_counted() -> None:
    snapshot, tally = counted()
    tally.synced = False

    decision = asked(snapshot, obj(owner=A))

    assert (decision.outcome, decision.assigned) == ("no_shard", None)
    assert [(o.op, o.path) for o in decision.operations] == [
        ("remove", f"/metadata/labels/{OWNER.replace('/', '~1')}")
    ]


def test_a_generated_name_counts_as_the_name_that_it_becomes() -> None:
    snapshot, _ = counted()
    unnamed = obj()
    meta = msgspec.structs.replace(unnamed.metadata, name="", generate_name="w-")
    decision = asked(snapshot, msgspec.structs.replace(unnamed, metadata=meta), uid="some-uid")

    name = next(o.value for o in decision.operations if o.path == "/metadata/name")
    assert isinstance(name, str)
    assert decision.reservation == Reservation(
        identity_of(main_key(obj(WIDGETS, name))), Entry(decision.assigned)
    )


def test_an_object_that_is_released_is_placed_where_there_is_room_and_counted_there() -> None:
    snapshot, tally = counted(3)
    for number in range(3):
        tally.see("w", number, Entry(A))
    before = obj(owner=A, drain="true")
    tally.see("w", snapshot.identity_of(before), Entry(A, draining=True))

    decision = asked(snapshot, obj(), before)

    assert decision.assigned == B
    assert decision.reservation == Reservation(snapshot.identity_of(before), Entry(B))


def test_an_object_that_is_released_waits_where_there_is_no_room() -> None:
    snapshot, tally = counted(3)
    for number in range(6):
        tally.see("w", number, Entry(A if number < 3 else B))
    before = obj(owner=A, drain="true")
    tally.see("w", snapshot.identity_of(before), Entry(A, draining=True))

    decision = asked(snapshot, obj(), before)

    assert (decision.outcome, decision.operations) == ("no_shard", ())


def test_an_object_that_is_released_goes_where_it_is_directed_while_there_is_room() -> None:
    for held, goal in ((2, B), (3, A)):
        snapshot, tally = counted(3)
        for number in range(held):
            tally.see("w", number, Entry(B))
        before = obj(owner=A, drain="true", annotations={NEXT: B})
        tally.see("w", snapshot.identity_of(before), snapshot.entry_of(before))

        decision = asked(snapshot, obj(annotations={NEXT: B}), before)

        assert (decision.assigned, decision.reservation) == (
            goal,
            Reservation(snapshot.identity_of(before), Entry(goal)),
        )


def test_the_room_that_an_object_is_on_its_way_to_is_given_to_no_new_one() -> None:
    snapshot, tally = counted(3)
    for number in range(5):
        tally.see("w", number, Entry(A if number < 3 else B))
    coming = obj(WIDGETS, "coming", owner=A, drain="true", annotations={NEXT: B})
    tally.see("w", snapshot.identity_of(coming), snapshot.entry_of(coming))

    assert admitted(snapshot, obj(WIDGETS, "new")) is None


def test_what_another_replica_has_chosen_for_the_same_request_stands() -> None:
    snapshot, tally = counted(3)
    for number in range(3):
        tally.see("w", number, Entry(B))
    before = obj(owner=A, drain="true")

    decision = asked(snapshot, obj(owner=B), before)

    assert (decision.outcome, decision.operations) == ("unchanged", ())
    assert decision.reservation == Reservation(snapshot.identity_of(before), Entry(B))


@pytest.mark.parametrize("owner", [A, B])
def test_a_child_gets_the_shard_on_which_its_owner_is_counted(owner: ShardName) -> None:
    snapshot, tally = counted()
    parent = obj(SECRETS, "parent")
    tally.see("secrets", snapshot.identity_of(parent), Entry(owner))

    decision = asked(snapshot, obj(CONFIGMAPS, "c", controlled_by="parent"), of=CONFIGMAPS)

    assert (decision.assigned, decision.reservation) == (owner, None)


def test_a_child_of_an_owner_that_is_unknown_waits() -> None:
    snapshot, _ = counted()

    decision = asked(snapshot, obj(CONFIGMAPS, "c", controlled_by="parent"), of=CONFIGMAPS)

    assert decision.outcome == "no_shard"


def test_a_child_of_an_owner_whose_shard_is_gone_waits() -> None:
    snapshot, tally = counted()
    tally.see("s", snapshot.identity_of(obj(SECRETS, "parent")), Entry(ShardName("gone")))

    decision = asked(snapshot, obj(CONFIGMAPS, "c", controlled_by="parent"), of=CONFIGMAPS)

    assert decision.outcome == "no_shard"


def test_a_pinned_object_gets_its_shard_or_none() -> None:
    snapshot, tally = counted(1)
    tally.see("w", 1, Entry(A))

    pins = {pin_label(DEMO): A}
    decision = asked(snapshot, obj(labels=pins))

    assert decision.assigned is None
    assert "pinned to shard-a" in decision.warning
    assert "full: 1 of 1" in decision.warning


def test_an_update_that_drops_the_drain_label_alone_changes_no_count() -> None:
    snapshot, _ = counted()

    decision = asked(snapshot, obj(owner=A), obj(owner=A, drain="true"))

    assert decision.outcome == "restored"
    assert [o.path for o in decision.operations] == [
        f"/metadata/labels/{DRAIN.replace('/', '~1')}"
    ]
    assert decision.reservation is None
