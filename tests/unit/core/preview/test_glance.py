"""Facts about `sharder.core.preview.observe`: shards judged by their Leases alone."""

from datetime import timedelta

from sharder.core.leases.membership import Standing
from sharder.core.leases.state import ShardState
from sharder.core.preview.observe import members_of, states_of
from tests.support.values import DEMO, NOW, A, B, C, lease, ring


def test_a_shard_that_holds_its_lease_is_available_however_old_the_renewal() -> None:
    members = members_of(ring(), [lease(A, renewed=NOW - timedelta(days=1)), lease(B, holder="")])

    assert members.available == {A}


def test_a_shard_without_lease_or_that_let_go_of_it_is_gone() -> None:
    members = members_of(ring(), [lease(A), lease(B, holder="")])

    assert members.standing_of(B) is Standing.GONE
    assert members.standing_of(C) is Standing.GONE


def test_a_shard_whose_lease_is_invalid_is_never_available() -> None:
    members = members_of(ring(), [lease(A, renewed=None)])

    assert members.standing_of(A) is Standing.LEAVING
    assert members.available == set()


def test_states_follow_from_the_times_in_the_leases_of_the_ring() -> None:
    present = [lease(A), lease(B, holder=None), lease(C, of="other")]

    states = states_of(DEMO, present, NOW + timedelta(seconds=20))

    assert states == {A: ShardState.EXPIRED, B: ShardState.DEAD}


def test_of_two_leases_of_one_name_the_healthier_one_is_shown() -> None:
    present = [lease(A), lease(A, holder="", namespace="other")]

    assert states_of(DEMO, present, NOW) == {A: ShardState.READY}
