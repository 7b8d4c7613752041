"""Admission where objects are counted: at most so many on a shard, and each counts at once."""

from typing import Literal

import msgspec

from sharder.core.admission.answers import Decision
from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing, PlacementSpec, StrategyName
from sharder.core.movement.acknowledgement import Writer
from sharder.core.names import GroupResource, ShardName
from sharder.core.placement.counting.counts import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import CONFIGMAPS, NEXT, SECRETS, WIDGETS, A, B, available, obj, ring

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
            Reservation(snapshot.identity_of(before), Entry(goal), 7),
        )


def test_what_another_replica_has_chosen_for_the_same_request_stands() -> None:
    snapshot, tally = counted(3)
    for number in range(3):
        tally.see("w", number, Entry(B))
    before = obj(owner=A, drain="true")

    decision = asked(snapshot, obj(owner=B), before)

    assert (decision.outcome, decision.operations) == ("unchanged", ())
    assert decision.reservation == Reservation(snapshot.identity_of(before), Entry(B), 7)


def test_a_child_of_an_owner_whose_shard_is_gone_waits() -> None:
    snapshot, tally = counted()
    tally.see("s", snapshot.identity_of(obj(SECRETS, "parent")), Entry(ShardName("gone")))

    decision = asked(snapshot, obj(CONFIGMAPS, "c", controlled_by="parent"), of=CONFIGMAPS)

    assert decision.outcome == "no_shard"
