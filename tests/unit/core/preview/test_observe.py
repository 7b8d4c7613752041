"""Facts about `sharder.core.preview.observe`: shards by their Leases, counts, and how even."""

from datetime import timedelta

import pytest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.leases.membership import Standing
from sharder.core.preview.observe import Number, ObjectCount, imbalance, members_of, states_of
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


@pytest.mark.parametrize(("name", "is_in"), [("default", True), ("elsewhere", False)])
def test_a_namespace_is_in_scope_if_it_is_selected_itself(name: str, is_in: bool) -> None:
    namespace = PartialObject(api_version="v1", kind="Namespace", metadata=ObjectMeta(name=name))

    assert snapshot().selects(namespace) is is_in


def test_cluster_scoped_objects_are_always_in_scope() -> None:
    assert snapshot().selects(obj(namespace=""))


@pytest.mark.parametrize(
    ("counts", "ratio"),
    [({A: 2, B: 2}, 1.0), ({A: 3, B: 1}, 1.5), ({A: 4}, 2.0), ({C: 4}, None), ({}, None)],
)
def test_imbalance_is_the_fullest_over_the_mean(
    counts: dict[str, int], ratio: float | None
) -> None:
    by_shard = {shard: counts[shard] for shard in (A, B, C) if shard in counts}

    assert imbalance(by_shard, (A, B)) == ratio


def test_there_is_no_imbalance_without_shards() -> None:
    assert imbalance({A: 1}, ()) is None


def test_a_shard_that_holds_its_lease_is_available_however_old_the_renewal() -> None:
    found = members_of(ring(), [lease(A, renewed=NOW - timedelta(days=1)), lease(B, holder="")])

    assert found.available == {A}


def test_a_shard_without_lease_or_that_released_it_is_gone() -> None:
    found = members_of(ring(), [lease(A), lease(B, holder="")])

    assert found.standing_of(B) is Standing.GONE
    assert found.standing_of(C) is Standing.GONE


def test_a_shard_whose_lease_is_invalid_is_never_available() -> None:
    found = members_of(ring(), [lease(A, renewed=None)])

    assert found.standing_of(A) is Standing.LEAVING
    assert found.available == set()


def test_states_follow_from_the_times_in_the_leases_of_the_ring() -> None:
    present = [lease(A), lease(B, holder=None), lease(C, seconds=None)]

    states = states_of(members_of(ring(), present), present, NOW + timedelta(seconds=20))

    assert states == {A: ShardPhase.LATE, B: ShardPhase.LEFT, C: ShardPhase.LEAVING}


def test_of_two_leases_of_one_name_the_healthier_one_is_shown() -> None:
    present = [lease(A), lease(A, holder="", namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.READY}


def test_of_two_shards_of_one_name_nothing_is_certain() -> None:
    present = [lease(A), lease(A, namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.MISSING}
