"""What happened to a ring: the differences that are told, and their sentences."""

import pytest

from sharder.core.api.ring import RingStatus, ShardStatus
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.validity import classify
from sharder.core.names import SHARDER_IDENTITY, ShardName
from sharder.core.status.phases import ShardPhase
from sharder.core.status.transitions import (
    Kind,
    Phases,
    Transition,
    phases_after,
    phases_stored,
    sentence,
    silence_of,
    transitions,
)
from tests.support.values import A, B, C, lease, members, snapshot

LOST, LEFT, READY, LATE, MISSING, LEAVING = (
    ShardPhase.LOST,
    ShardPhase.LEFT,
    ShardPhase.READY,
    ShardPhase.LATE,
    ShardPhase.MISSING,
    ShardPhase.LEAVING,
)


def told(before: Phases, after: Phases, **more: object) -> dict[Kind, str]:
    found = transitions(before, after, **{"objects": {A: 3, B: 1}, **more})  # type: ignore[arg-type]
    return {each.kind: sentence(each) for each in found}


def test_shards_join_leave_and_are_lost() -> None:
    assert told({A: READY, B: READY}, {A: LOST, B: LEFT, C: READY}, unable={B: "it says so"}) == {
        Kind.LOST: (
            "shard shard-a was lost (3 objects): Lease expired or deleted; 1 shard is available"
        ),
        Kind.LEFT: "shard shard-b has left (1 object); 1 shard is available: it says so",
        Kind.JOINED: "shard shard-c has joined; 1 shard is available",
    }


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        (None, READY, Kind.JOINED),
        (None, LATE, Kind.JOINED),
        (LOST, READY, Kind.JOINED),
        (LATE, READY, None),
        (MISSING, READY, None),
        (READY, MISSING, Kind.MISSING),
        (READY, LEAVING, None),
        (LATE, LOST, Kind.LOST),
        (READY, LEFT, Kind.LEFT),
        (None, LOST, None),
        (LOST, None, None),
    ],
)
def test_each_change_of_a_shard_is_at_most_one_transition(
    was: ShardPhase | None, now: ShardPhase | None, kind: Kind | None
) -> None:
    before, after = ({A: phase} if phase else {} for phase in (was, now))

    assert list(told(before, after)) == ([kind] if kind else [])


def test_a_thousand_shards_make_one_short_sentence_with_the_fullest_first() -> None:
    many = {ShardName(f"shard-{n:04}"): READY for n in range(1000)}
    gone = dict.fromkeys(many, LOST)
    (lost,) = transitions(many, gone, {ShardName("shard-0500"): 7})

    assert told({}, many) == {
        Kind.JOINED: "shards shard-0000, shard-0001, shard-0002 and 997 more have joined; "
        "1000 shards are available"
    }
    assert lost.who == "shard-0500, shard-0000, shard-0001 and 997 more"
    assert lost.numbers == {"shards": 1000, "objects": 7, "available": 0}


def test_warnings_are_what_a_person_should_look_at() -> None:
    assert {kind for kind in Kind if kind.is_warning} == {Kind.LOST, Kind.MISSING}
    assert Transition(kind=Kind.LEFT, detail="cannot watch").is_warning
    assert not Transition(kind=Kind.LEFT).is_warning


def test_only_shards_that_work_join_but_a_known_one_can_be_missing() -> None:
    now = snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING}))

    assert phases_after({}, now) == {A: READY}
    assert phases_after({B: READY}, now) == {A: READY, B: MISSING}


@pytest.mark.parametrize(
    ("was", "ends"), [(READY, LEFT), (MISSING, LOST), (LEFT, LEFT), (LOST, LOST)]
)
def test_a_shard_without_a_lease_has_ended_until_that_is_told(
    was: ShardPhase, ends: ShardPhase
) -> None:
    now = snapshot(members({A: Standing.AVAILABLE}))

    assert phases_after({B: was}, now) == {A: READY, B: ends}


@pytest.mark.parametrize(
    ("holder", "phase", "seconds"), [("", LEFT, 0), (SHARDER_IDENTITY, LOST, 30)]
)
def test_a_taken_lease_means_lost_so_long_ago_and_a_released_one_left(
    holder: str, phase: ShardPhase, seconds: float
) -> None:
    now = snapshot(
        Members(
            standings={A: Standing.AVAILABLE, B: Standing.GONE},
            stranger=Standing.GONE,
            namespaces={},
            validity=classify([lease(A), lease(B, holder=holder, seconds=30)], ()),
        )
    )

    assert phases_after({A: READY, B: READY}, now)[B] is phase
    assert silence_of(now, B, phase) == seconds


def status(*states: tuple[ShardName, str], truncated: bool = False) -> RingStatus:
    return RingStatus(
        shards=2,
        shard_statuses=tuple(ShardStatus(name=name, state=state) for name, state in states),
        shard_statuses_truncated=truncated,
    )


def test_a_new_leader_continues_where_the_status_ends() -> None:
    listed = status((A, "ready"), (B, "dead"), (C, "uncertain"))

    assert phases_stored(listed, {B: READY}) == {A: READY, C: LATE}
    assert not phases_stored(RingStatus(), {A: READY}), "the first shards of a ring are told"
