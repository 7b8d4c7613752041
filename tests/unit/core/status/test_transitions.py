"""What happened to a ring: the differences that are told, their sentences, and phases."""

from datetime import timedelta

import pytest

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.validity import classify
from sharder.core.names import SHARDER_IDENTITY, ShardName
from sharder.core.status.phases import (
    Kind,
    Phases,
    ShardPhase,
    phase_of,
    phases_after,
    sentence,
    transitions,
)
from tests.support.values import NOW, A, B, C, lease, members, snapshot

LOST, LEFT, READY, LATE, MISSING, LEAVING = (
    ShardPhase.LOST,
    ShardPhase.LEFT,
    ShardPhase.READY,
    ShardPhase.LATE,
    ShardPhase.MISSING,
    ShardPhase.LEAVING,
)


def told(before: Phases, after: Phases) -> dict[Kind, str]:
    return {each.kind: sentence(each) for each in transitions(before, after)}


def test_shards_join_leave_and_are_lost() -> None:
    assert told({A: READY, B: READY}, {A: LOST, B: LEFT, C: READY}) == {
        Kind.LOST: "shard shard-a lost: Lease expired or deleted; available shards: 1",
        Kind.LEFT: "shard shard-b left; available shards: 1",
        Kind.JOINED: "shard shard-c joined; available shards: 1",
    }


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        (None, READY, Kind.JOINED),
        (None, LATE, Kind.JOINED),
        (LATE, READY, None),
        (MISSING, READY, None),
        (READY, MISSING, Kind.MISSING),
        (READY, LEAVING, None),
        (LATE, LOST, Kind.LOST),
        (READY, LEFT, Kind.LEFT),
        (None, LOST, None),
    ],
)
def test_each_change_of_a_shard_is_at_most_one_transition(
    was: ShardPhase | None, now: ShardPhase, kind: Kind | None
) -> None:
    assert list(told({A: was} if was else {}, {A: now})) == ([kind] if kind else [])


def test_a_thousand_shards_make_one_short_sentence() -> None:
    many = {ShardName(f"shard-{n:04}"): READY for n in range(1000)}

    assert told({}, many) == {
        Kind.JOINED: "shards shard-0000, shard-0001, shard-0002 and 997 more joined; "
        "available shards: 1000"
    }


def test_only_shards_that_work_join_but_a_known_one_can_be_missing() -> None:
    now = snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING}))

    assert phases_after({}, now) == {A: READY}
    assert phases_after({B: READY}, now) == {A: READY, B: MISSING}


@pytest.mark.parametrize(("was", "ends"), [(READY, LEFT), (MISSING, LOST)])
def test_a_shard_without_a_lease_has_ended(was: ShardPhase, ends: ShardPhase) -> None:
    now = snapshot(members({A: Standing.AVAILABLE}))

    assert phases_after({B: was}, now) == {A: READY, B: ends}


@pytest.mark.parametrize(("holder", "phase"), [("", LEFT), (SHARDER_IDENTITY, LOST)])
def test_a_taken_lease_means_lost_and_a_released_one_left(holder: str, phase: ShardPhase) -> None:
    now = snapshot(
        Members(
            standings={A: Standing.AVAILABLE, B: Standing.GONE},
            stranger=Standing.GONE,
            namespaces={},
            validity=classify([lease(A), lease(B, holder=holder, seconds=30)], ()),
        )
    )

    assert phases_after({A: READY, B: READY}, now)[B] is phase


# The phase of a shard by one read of its Lease


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (lease(), ShardPhase.READY),
        (lease(renewed=NOW - 14 * SECOND), ShardPhase.READY),
        (lease(renewed=NOW - 15 * SECOND), ShardPhase.LATE),
        (lease(renewed=NOW - 900 * SECOND), ShardPhase.LATE),
        (lease(seconds=7200), ShardPhase.LEAVING),
        (lease(holder="another-client"), ShardPhase.MISSING),
        (lease(holder=""), ShardPhase.LEFT),
        (lease(holder=None), ShardPhase.LEFT),
        (lease(holder="", renewed=NOW - 900 * SECOND), ShardPhase.LEFT),
        (lease(holder=SHARDER_IDENTITY), ShardPhase.LOST),
        (lease(holder=SHARDER_IDENTITY, acquired=NOW - SECOND), ShardPhase.LEFT),
    ],
)
def test_one_read_of_a_lease_shows_the_phase(found: Lease, phase: ShardPhase) -> None:
    assert phase_of(found, NOW) is phase
