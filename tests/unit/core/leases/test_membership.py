"""Facts about `core.leases.membership`: standings, and the memory of deleted Leases."""

from collections.abc import Mapping

import pytest

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing, ring_of
from sharder.core.leases.register import UNKNOWN_SILENCE, Membership
from sharder.core.names import (
    REVISION_LABEL,
    SHARDER_IDENTITY,
    ZONE_LABEL,
    ObjectRef,
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


# What a Lease says


@pytest.mark.parametrize(
    ("of", "standing"),
    [
        (lease(), Standing.AVAILABLE),
        (lease(seconds=3600), Standing.AVAILABLE),
        (lease(holder=""), Standing.GONE),
        (lease(holder=None), Standing.GONE),
        (lease(holder=SHARDER_IDENTITY, seconds=7200), Standing.GONE),
        (lease(holder="another-client"), Standing.MISSING),
        (lease(seconds=0), Standing.LEAVING),
        (lease(seconds=3601), Standing.LEAVING),
        (lease(seconds=None), Standing.LEAVING),
        (lease(renewed=None), Standing.LEAVING),
    ],
)
def test_the_holder_and_the_validity_of_its_lease_make_a_shards_standing(
    of: Lease, standing: Standing
) -> None:
    assert standing_at(watching(of), LONG_AFTER) is standing


def test_the_times_in_a_lease_make_no_difference() -> None:
    # Another machine's clock may be wrong by years.
    old, future = lease(A, renewed=NOW.replace(year=1)), lease(B, renewed=NOW.replace(year=9999))

    assert watching(old, future).members(DEMO, LONG_AFTER).available == {A, B}


def test_a_lease_whose_name_is_no_label_value_is_no_available_shard() -> None:
    assert watching(lease("x" * 64)).members(DEMO, LONG_AFTER).available == frozenset()


def test_members_of_other_rings_are_strangers() -> None:
    membership = watching(lease(A, of=OTHER), lease(B))

    assert membership.members(DEMO, LONG_AFTER).available == {B}
    assert standing_at(membership, LONG_AFTER, A) is Standing.GONE


# Strangers


def test_a_stranger_may_be_working_until_30_seconds_after_our_start() -> None:
    membership = Membership(100.0)

    assert UNKNOWN_SILENCE == 30.0
    assert standing_at(membership, 100.0) is Standing.MISSING
    assert standing_at(membership, 129.999) is Standing.MISSING
    assert standing_at(membership, 130.0) is Standing.GONE


def test_the_end_of_the_doubt_about_strangers_is_the_next_change() -> None:
    assert Membership(100.0).next_change(100.0) == 130.0
    assert Membership(100.0).next_change(130.0) is None


# Leases that are gone


def test_a_shard_whose_lease_was_deleted_may_work_for_two_durations_after_its_last_renewal() -> (
    None
):
    membership = watching(lease(seconds=20), at=1000.0)

    affected = membership.forget(lease(), at=1010.0)

    assert affected == {DEMO}
    assert standing_at(membership, 1010.0) is Standing.MISSING
    assert membership.next_change(1010.0) == 1040.0
    assert standing_at(membership, 1039.999) is Standing.MISSING
    assert standing_at(membership, 1040.0) is Standing.GONE


def test_a_shard_that_comes_back_after_its_lease_was_deleted_is_available_at_once() -> None:
    membership = watching(lease(), at=1000.0)
    membership.forget(lease(), at=1001.0)

    affected = membership.see(lease(renewed=NOW), at=1003.0)

    assert affected == {DEMO}
    assert standing_at(membership, 1003.0) is Standing.AVAILABLE
    assert membership.next_change(1003.0) is None


@pytest.mark.parametrize("holder", ["", SHARDER_IDENTITY])
def test_a_shard_that_was_given_up_is_gone_when_its_lease_is_deleted(holder: str) -> None:
    membership = watching(lease(), at=1.0)
    membership.see(lease(holder=holder), at=2.0)

    membership.forget(lease(holder=holder), at=3.0)

    assert standing_at(membership, 3.0) is Standing.GONE


def test_an_empty_lease_made_in_place_of_a_deleted_one_does_not_end_the_wait() -> None:
    membership = watching(lease(), at=1000.0)
    membership.forget(lease(), at=1001.0)

    membership.see(lease(holder=None), at=1002.0)
    present = standing_at(membership, 1002.0)
    membership.forget(lease(holder=None), at=1003.0)

    assert present is Standing.MISSING
    assert standing_at(membership, 1029.9) is Standing.MISSING
    assert standing_at(membership, 1030.0) is Standing.GONE


def test_a_lease_that_loses_its_label_is_gone() -> None:
    membership = watching(lease(), at=1000.0)

    membership.forget(lease(), at=1000.0)

    assert standing_at(membership, 1000.0) is Standing.MISSING
    assert membership.observed(lease().metadata.ref) is None


def test_a_lease_that_changes_its_ring_leaves_the_old_one_like_a_deleted_one() -> None:
    membership = watching(lease(), at=1000.0)

    affected = membership.see(lease(of=OTHER), at=1001.0)

    assert affected == {DEMO, OTHER}
    assert standing_at(membership, 1001.0) is Standing.MISSING
    assert standing_at(membership, 1030.0) is Standing.GONE
    assert membership.members(OTHER, 1001.0).available == {A}


def test_forgetting_a_lease_that_was_never_seen_changes_nothing() -> None:
    membership = watching()

    assert membership.forget(lease(), at=LONG_AFTER) == frozenset()
    assert standing_at(membership, LONG_AFTER) is Standing.GONE


def test_departures_are_forgotten_when_they_say_no_more_than_that_a_shard_is_a_stranger() -> None:
    membership = watching(lease(A), lease(B), at=1000.0)
    membership.forget(lease(A), at=1000.0)

    membership.forget(lease(B), at=1050.0)

    assert A not in membership.members(DEMO, 1050.0).standings
    assert standing_at(membership, 1050.0, A) is Standing.GONE


def test_a_departure_is_remembered_while_strangers_may_be_working() -> None:
    membership = watching(lease(A, holder=""), lease(B), at=1.0)

    membership.forget(lease(A, holder=""), at=2.0)

    assert standing_at(membership, 2.0, A) is Standing.GONE
    assert standing_at(membership, 2.0, C) is Standing.MISSING


# Whole lists


def test_a_list_replaces_all_that_was_known() -> None:
    membership = watching(lease(A), lease(B, of=OTHER), at=1000.0)

    affected = membership.replace([lease(A), lease(C)], at=1001.0)

    assert affected == {DEMO, OTHER}
    assert membership.members(DEMO, 1001.0).available == {A, C}
    assert membership.members(OTHER, 1001.0).available == frozenset()


def test_an_empty_list_of_nothing_affects_no_ring() -> None:
    assert Membership(0.0).replace([], at=0.0) == frozenset()


def test_a_list_that_shows_mere_renewals_affects_no_ring() -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.replace([lease(renewed=NOW.replace(minute=1))], at=1001.0) == frozenset()


def test_a_lease_missing_in_a_new_list_counts_from_that_list() -> None:
    # Between two lists renewals go unseen: the last one may have come right before the deletion.
    membership = watching(lease(), at=1000.0)

    membership.replace([], at=1100.0)

    assert standing_at(membership, 1100.0) is Standing.MISSING
    assert standing_at(membership, 1130.0) is Standing.GONE


def test_a_released_lease_missing_in_a_new_list_is_gone() -> None:
    membership = watching(lease(holder=""), at=1000.0)

    membership.replace([], at=1100.0)

    assert standing_at(membership, 1100.0) is Standing.GONE


# Which rings a Lease affects


def test_a_mere_renewal_affects_no_ring() -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.see(lease(renewed=NOW.replace(second=2)), at=1002.0) == frozenset()


def test_a_state_label_affects_no_ring() -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.see(lease(labels={"state": "ready"}), at=1002.0) == frozenset()


@pytest.mark.parametrize(
    "after", [lease(holder=""), lease(holder="another-client"), lease(seconds=0)]
)
def test_a_change_of_standing_affects_the_ring(after: Lease) -> None:
    membership = watching(lease(), at=1000.0)

    assert membership.see(after, at=1002.0) == {DEMO}
    assert membership.see(lease(), at=1004.0) == {DEMO}


def test_a_new_lease_affects_its_ring() -> None:
    assert Membership(0.0).see(lease(), at=1.0) == {DEMO}


# Observed Leases


def test_a_lease_is_watched_from_first_sight_and_anew_from_every_renewal() -> None:
    membership = watching(lease(), at=1000.0)

    membership.see(lease(labels={"state": "ready"}), at=1001.0)
    before = membership.observed(lease().metadata.ref)
    membership.see(lease(renewed=NOW.replace(second=2)), at=1002.0)
    after = membership.observed(lease().metadata.ref)

    assert before is not None
    assert before.since == 1000.0
    assert after is not None
    assert after.since == 1002.0


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


def test_a_renewal_of_a_shard_that_says_its_revision_is_no_news() -> None:
    membership = watching(lease(A, labels={REVISION_LABEL: "1"}))
    first = membership.members(DEMO, LONG_AFTER).shards[A]

    renewal = lease(A, labels={REVISION_LABEL: "1"}, renewed=NOW.replace(second=5))

    assert membership.see(renewal, at=1005.0) == set()
    assert membership.members(DEMO, 1005.0).shards[A] is first


def test_of_a_lease_that_was_made_anew_the_shard_is_described_anew() -> None:
    large, small = (lease(A, labels={ZONE_LABEL: zone}) for zone in ("large", "small"))
    membership = watching(large)

    membership.forget(large, at=1001.0)
    membership.see(small, at=1002.0)

    assert membership.members(DEMO, 1002.0).shards[A].zone == "small"


def test_observed_leases_come_by_namespace_and_name() -> None:
    membership = watching(
        lease(B), lease(A), lease(C, namespace="another"), lease(C, of=OTHER, namespace="x")
    )

    refs = [observed.lease.metadata.ref for observed in membership.observed_leases(DEMO)]

    assert refs == [
        ObjectRef("another", C),
        ObjectRef("default", A),
        ObjectRef("default", B),
    ]


# One name in two namespaces


def test_two_shards_of_one_name_get_nothing_new_and_keep_what_they_have() -> None:
    membership = watching(lease(A), lease(A, namespace="another"), lease(B))

    members = membership.members(DEMO, LONG_AFTER)

    assert members.standing_of(A) is Standing.MISSING
    assert members.available == {B}


def test_a_name_is_available_again_when_one_of_its_two_leases_is_gone() -> None:
    membership = watching(lease(A), lease(A, namespace="another"))

    affected = membership.forget(lease(A, namespace="another"), at=LONG_AFTER)

    assert affected == {DEMO}
    assert standing_at(membership, LONG_AFTER) is Standing.AVAILABLE
    assert membership.members(DEMO, LONG_AFTER).namespaces == {A: "default"}


def test_a_name_is_available_when_only_one_of_its_two_leases_is_held() -> None:
    membership = watching(lease(A), lease(A, namespace="another", holder=""))

    members = membership.members(DEMO, LONG_AFTER)

    assert members.standing_of(A) is Standing.AVAILABLE
    assert members.namespaces == {A: "default"}


def test_a_shard_lives_where_the_lease_that_it_holds_lives() -> None:
    membership = watching(lease(A, namespace="a"), lease(A, namespace="z", holder=""))

    assert membership.members(DEMO, LONG_AFTER).namespaces == {A: "a"}


def test_the_end_of_one_lease_says_nothing_about_a_shard_of_that_name_elsewhere() -> None:
    membership = watching(lease(A), lease(A, namespace="another"), at=1000.0)
    membership.forget(lease(A), at=1001.0)
    membership.see(lease(A, namespace="another", renewed=NOW.replace(second=1)), at=1002.0)

    membership.see(lease(A, namespace="another", holder=""), at=1003.0)

    assert standing_at(membership, 1003.0) is Standing.MISSING
    assert standing_at(membership, 1030.0) is Standing.GONE


# The ring's namespaces


def inside(membership: Membership, at: float, before: Members | None = None) -> Members:
    """The members of a ring that has its shards in the namespace `default`."""
    return membership.members(DEMO, at, namespaces=("default",), before=before)


def test_a_lease_in_another_namespace_is_no_shard() -> None:
    known = inside(watching(lease(A)), LONG_AFTER)
    membership = watching(lease(A), lease(B, namespace="evil"))

    assert inside(membership, LONG_AFTER, known) == known


def test_a_namesake_in_another_namespace_changes_nothing() -> None:
    known = inside(watching(lease(A)), LONG_AFTER)
    membership = watching(lease(A), lease(A, namespace="evil"))

    assert inside(membership, LONG_AFTER, known) == known


def test_a_namesake_in_another_namespace_keeps_no_dead_shard_alive() -> None:
    membership = watching(lease(A, holder=""), lease(A, namespace="evil"))
    membership.forget(lease(A, namespace="evil"), LONG_AFTER)

    members = inside(membership, LONG_AFTER, inside(watching(lease(A)), LONG_AFTER))

    assert members.standing_of(A) is Standing.GONE


def test_a_shard_whose_namespace_the_ring_gives_up_is_asked_to_release() -> None:
    membership = watching(lease(A), lease(B, namespace="former"))
    before = membership.members(DEMO, LONG_AFTER)

    members = inside(membership, LONG_AFTER, before)

    assert members.standing_of(B) is Standing.LEAVING
    assert members.available == {A}
    assert members.namespaces[B] == "former"
    assert inside(membership, LONG_AFTER, members) == members


def test_a_shard_outside_may_have_been_one_before_this_process_began() -> None:
    membership = watching(lease(A), lease(B, namespace="former"))

    assert inside(membership, LONG_AFTER).standing_of(B) is Standing.LEAVING


# Members


@pytest.mark.parametrize(
    "of", [lease(seconds=0), lease(holder=""), lease(holder="another-client")]
)
def test_it_is_known_where_shards_live_that_are_not_available(of: Lease) -> None:
    # They too acknowledge: a shard with an invalid Lease is drained.
    assert watching(of).members(DEMO, LONG_AFTER).namespaces == {A: "default"}


def test_a_lease_that_was_made_anew_before_its_ring_was_known_releases_nothing_yet() -> None:
    membership = Membership(0.0)
    membership.replace([lease()], LONG_AFTER)

    membership.forget(lease(), LONG_AFTER)
    membership.see(lease(holder=""), LONG_AFTER)

    assert standing_at(membership, LONG_AFTER) is Standing.MISSING
    assert standing_at(membership, LONG_AFTER + 31) is Standing.GONE


def test_the_ring_of_a_lease_without_label_is_empty() -> None:
    assert ring_of(lease(of="")) == ""
    assert ring_of(Lease()) == ""
    assert ring_of(lease()) == DEMO


def test_members_name_the_available_shards_and_judge_strangers() -> None:
    members = Members(
        standings={A: Standing.AVAILABLE, B: Standing.LEAVING},
        stranger=Standing.MISSING,
        namespaces={},
    )

    assert members.available == {A}
    assert members.standing_of(B) is Standing.LEAVING
    assert members.standing_of(C) is Standing.MISSING
