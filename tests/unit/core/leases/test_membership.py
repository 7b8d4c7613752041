"""Facts about `core.leases.membership`: standings, and the memory of deleted Leases."""

from collections.abc import Mapping

import pytest

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.register import Membership
from sharder.core.leases.ring_leases import UNKNOWN_SILENCE
from sharder.core.names import (
    REVISION_LABEL,
    RingName,
    ShardName,
)
from tests.support.values import DEMO, NOW, A, B, C, lease

OTHER = RingName("other")
LONG_AFTER = 1000.0
"""When strangers are gone for a process that started at 0."""


def standing_at(membership: Membership, at: float, shard: ShardName = A) -> Standing:
    return membership.members(DEMO, at).standing_of(shard)


def watching(*leases: Lease, at: float = LONG_AFTER) -> Membership:
    """A process that started at 0, knows two rings, and sees these Leases at `at`."""
    membership = Membership(0.0)
    membership.expect(DEMO, ())
    membership.expect(OTHER, ())
    membership.replace(leases, at)
    return membership


# Strangers


def test_a_stranger_may_be_working_until_30_seconds_after_our_start() -> None:
    membership = Membership(100.0)

    assert UNKNOWN_SILENCE == 30.0
    assert standing_at(membership, 100.0) is Standing.MISSING
    assert standing_at(membership, 129.999) is Standing.MISSING
    assert standing_at(membership, 130.0) is Standing.GONE


# Leases that are gone


def test_a_shard_whose_lease_was_deleted_may_work_for_two_durations_after_its_last_renewal() -> (
    None
):
    membership = watching(lease(seconds=20), at=1000.0)

    affected = membership.forget(lease(), at=1010.0)

    assert affected == {DEMO}
    assert standing_at(membership, 1010.0) is Standing.MISSING
    assert membership.next_change() == 1040.0
    assert standing_at(membership, 1039.999) is Standing.MISSING
    assert standing_at(membership, 1040.0) is Standing.GONE


def test_a_lease_that_is_not_kept_changes_nothing_when_it_is_deleted() -> None:
    membership = watching(lease(A), at=1000.0)

    assert membership.forget(lease(B), at=1010.0) == frozenset()
    assert standing_at(membership, 1010.0, B) is Standing.GONE


def test_departures_are_forgotten_when_they_say_no_more_than_that_a_shard_is_a_stranger() -> None:
    membership = watching(lease(A), lease(B), at=1000.0)
    membership.forget(lease(A), at=1000.0)

    membership.forget(lease(B), at=1050.0)

    assert A not in membership.members(DEMO, 1050.0).standings
    assert standing_at(membership, 1050.0, A) is Standing.GONE


# Whole lists


def test_a_list_replaces_all_that_was_known() -> None:
    membership = watching(lease(A), lease(B, of=OTHER), at=1000.0)

    affected = membership.replace([lease(A), lease(C)], at=1001.0)

    assert affected == {DEMO, OTHER}
    assert membership.members(DEMO, 1001.0).available == {A, C}
    assert membership.members(OTHER, 1001.0).available == frozenset()


def test_a_list_that_shows_mere_renewals_affects_no_ring() -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.replace([lease(renewed=NOW.replace(minute=1))], at=1001.0) == frozenset()


# Which rings a Lease affects


@pytest.mark.parametrize(
    "after", [lease(holder=""), lease(holder="another-client"), lease(seconds=0)]
)
def test_a_change_of_standing_affects_the_ring(after: Lease) -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.see(after, at=1002.0) == {DEMO}
    assert membership.see(lease(), at=1004.0) == {DEMO}


# Observed Leases


def test_an_outage_is_no_silence_of_a_shard_and_what_was_silent_before_stays_so() -> None:
    membership = watching(lease(), at=1000.0)

    membership.note_outage(1020.0, 1050.0)

    observed = membership.observed(lease().metadata.ref)
    assert observed is not None
    assert observed.silent_at() == 1060.0


def test_what_a_lease_says_of_its_shard_is_not_worked_out_anew_for_each_renewal() -> None:
    membership = watching(lease(A))
    first = membership.members(DEMO, LONG_AFTER).shards[A]

    membership.see(lease(A, renewed=NOW.replace(second=5)), at=1005.0)

    assert membership.members(DEMO, 1005.0).shards[A] is first


@pytest.mark.parametrize(("labels", "affected"), [({REVISION_LABEL: "1"}, {DEMO}), ({}, set())])
def test_a_shard_that_takes_its_lease_anew_is_news_if_it_says_its_revision(
    labels: Mapping[str, str], affected: set[RingName]
) -> None:
    membership = watching(lease(A, labels=labels))
    later = lease(A, labels=labels, acquired=NOW.replace(hour=13), renewed=NOW.replace(hour=13))

    found = membership.see(later, at=1005.0)

    shard = membership.members(DEMO, 1005.0).shards[A]
    assert found == affected
    assert (shard.since == NOW.replace(hour=13).timestamp()) is bool(labels)


# The ring's namespaces


def inside(*leases: Lease) -> Membership:
    """The Leases of a ring that has its shards in the namespace `default`."""
    membership = Membership(0.0)
    membership.expect(DEMO, ("default",))
    membership.replace(leases, LONG_AFTER)
    return membership


def members(membership: Membership) -> Members:
    return membership.members(DEMO, LONG_AFTER, namespaces=("default",))


def test_a_lease_in_another_namespace_is_no_shard() -> None:
    membership = inside(lease(A))
    known = members(membership)

    membership.see(lease(B, namespace="evil"), LONG_AFTER)

    assert members(membership) == known


def test_a_namesake_in_another_namespace_keeps_no_dead_shard_alive() -> None:
    membership = inside(lease(A, holder=""), lease(A, namespace="evil"))
    held = members(membership).standing_of(A)

    membership.forget(lease(A, namespace="evil"), LONG_AFTER)

    assert held is members(membership).standing_of(A) is Standing.GONE


def test_a_shard_outside_may_have_been_one_before_this_process_began() -> None:
    membership = inside(lease(A), lease(B, namespace="former"))

    assert members(membership).standing_of(B) is Standing.LEAVING


# Members


def test_a_lease_that_was_made_anew_before_its_ring_was_known_releases_nothing_yet() -> None:
    membership = Membership(0.0)
    membership.replace([lease()], LONG_AFTER)

    membership.forget(lease(), LONG_AFTER)
    membership.see(lease(holder=""), LONG_AFTER)

    assert standing_at(membership, LONG_AFTER) is Standing.MISSING
    assert standing_at(membership, LONG_AFTER + 31) is Standing.GONE
