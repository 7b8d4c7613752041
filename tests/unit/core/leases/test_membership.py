"""Facts about `core.leases.membership`: standings, and the memory of deleted Leases."""

from collections.abc import Mapping

import pytest

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.register import Membership
from sharder.core.names import REVISION_LABEL, STATE_LABEL, RingName, ShardName
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


# Leases that are gone


def test_a_lease_with_the_label_of_another_ring_has_left_its_ring() -> None:
    membership = watching(lease(A), lease(B, holder=""))

    affected = membership.see(lease(A, of=OTHER), at=1010.0)

    assert affected == {DEMO, OTHER}
    assert membership.forget(lease(B, holder="").metadata.ref) == {DEMO}
    assert membership.forget(lease(C).metadata.ref) == frozenset()
    standings = [standing_at(membership, 1011.0, shard) for shard in (A, B, C)]
    assert standings == [Standing.MISSING, Standing.GONE, Standing.GONE]


def test_departures_are_forgotten_when_they_say_no_more_than_that_a_shard_is_a_stranger() -> None:
    membership = watching(lease(A), lease(B), at=1000.0)
    membership.forget(lease(A).metadata.ref)

    membership.forget(lease(B).metadata.ref)

    assert A not in membership.members(DEMO, 1050.0).standings
    assert standing_at(membership, 1050.0, A) is Standing.GONE


# Which rings a Lease affects


@pytest.mark.parametrize(
    "after", [lease(holder=""), lease(holder="another-client"), lease(seconds=0)]
)
def test_a_change_of_standing_affects_the_ring(after: Lease) -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.see(after, at=1002.0) == {DEMO}
    assert membership.see(lease(), at=1004.0) == {DEMO}


def test_a_mere_renewal_affects_nothing_and_is_known_as_such() -> None:
    first, second, third = (
        lease(labels={STATE_LABEL: "ready"}, renewed=NOW.replace(second=n)) for n in range(3)
    )
    membership = watching(first, at=1000.0)

    assert membership.see(second, at=1002.0) == frozenset()
    assert membership.see(third, at=1004.0) is None


# Observed Leases


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

    membership.forget(lease(A, namespace="evil").metadata.ref)

    assert held is members(membership).standing_of(A) is Standing.GONE


def test_a_shard_outside_may_have_been_one_before_this_process_began() -> None:
    former = [lease(B, namespace="former"), lease(C, holder="", namespace="former")]
    membership = inside(lease(A), *former)

    assert members(membership).standing_of(B) is Standing.LEAVING
    assert members(membership).standing_of(C) is Standing.GONE


# Members


def test_a_lease_that_was_made_anew_before_its_ring_was_known_releases_nothing_yet() -> None:
    membership = Membership(0.0)
    membership.replace([lease()], LONG_AFTER)

    membership.forget(lease().metadata.ref)
    membership.see(lease(holder=""), LONG_AFTER)

    assert standing_at(membership, LONG_AFTER) is Standing.MISSING
    assert standing_at(membership, LONG_AFTER + 31) is Standing.GONE
