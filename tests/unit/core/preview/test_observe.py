"""Facts about `sharder.core.preview.observe`: shards by their Leases, counts, and how even."""

from sharder.core.leases.membership import Standing
from sharder.core.preview.observe import Number, ObjectCount, members_of, states_of
from sharder.core.ring.snapshot import Role
from sharder.core.status.phases import ShardPhase
from tests.support.values import (
    CONFIGMAPS,
    NOW,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    lease,
    members,
    obj,
    ring,
    snapshot,
)


def test_objects_are_counted_per_shard() -> None:
    counted = ObjectCount(snapshot())

    for name, owner, drain in [("x", A, None), ("y", A, "true"), ("z", B, None)]:
        counted.count(obj(WIDGETS, name, owner=owner, drain=drain), Role.MAIN)

    assert {name: str(number) for name, number in counted.by_shard.items()} == {A: "2", B: "1"}
    assert counted.draining.total() == 1
    assert not counted.unowned


def test_children_are_counted_beside_main_objects() -> None:
    counted = ObjectCount(snapshot())

    counted.count(obj(SECRETS, "s", owner=A), Role.LEADING)
    for name in ("c", "d"):
        counted.count(obj(CONFIGMAPS, name, owner=A, controlled_by="s"), Role.CONTROLLED)

    assert (str(counted.all), counted.all.words) == ("1 +2", "1 object +2")
    assert str(counted.by_shard[A]) == "1 +2"


def test_an_object_is_unowned_without_owner_or_with_one_that_is_gone() -> None:
    counted = ObjectCount(snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING})))

    for owner in (None, A, B, C):
        counted.count(obj(owner=owner), Role.MAIN)

    assert counted.all == Number(objects=4)
    assert (counted.unassigned, counted.unowned) == (Number(objects=1), Number(objects=2))


def test_what_nothing_controls_or_is_out_of_scope_is_not_counted() -> None:
    counted = ObjectCount(snapshot())

    counted.count(obj(CONFIGMAPS), Role.CONTROLLED)
    counted.count(obj(namespace="elsewhere"), Role.MAIN)

    assert not counted.all


def test_of_two_leases_of_one_name_the_healthier_one_is_shown() -> None:
    present = [lease(A), lease(A, holder="", namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.READY}


def test_of_two_shards_of_one_name_nothing_is_certain() -> None:
    present = [lease(A), lease(A, namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.MISSING}
