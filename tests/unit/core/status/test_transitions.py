"""Which transitions lead from one state of a ring to the next."""

from dataclasses import replace

import pytest

from sharder.core.api.ring import Condition, RingStatus, ShardStatus
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.validity import classify
from sharder.core.names import SHARDER_IDENTITY, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.phases import ShardPhase
from sharder.core.status.transition_messages import Kind, Transition
from sharder.core.status.transitions import (
    RingView,
    silence_of,
    stored_view,
    transitions,
    view_of,
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


def view(
    *shards: ShardName,
    cordoned: frozenset[ShardName] = frozenset(),
    evacuating: frozenset[ShardName] = frozenset(),
    paused: bool = False,
    **phases: ShardPhase,
) -> RingView:
    others = {ShardName(name.replace("_", "-")): phase for name, phase in phases.items()}
    return RingView(
        phases={**dict.fromkeys(shards, READY), **others},
        cordoned=cordoned,
        evacuating=evacuating,
        paused=paused,
    )


def happened(before: RingView, after: RingView, **objects: int) -> dict[Kind, Transition]:
    by_shard = {ShardName(name.replace("_", "-")): n for name, n in objects.items()}
    return {each.kind: each for each in transitions(before, after, by_shard)}


def named(found: dict[Kind, Transition]) -> dict[Kind, set[ShardName]]:
    return {kind: set(each.shards) for kind, each in found.items()}


def test_shards_join_leave_and_are_lost() -> None:
    after = view(C, shard_a=LOST, shard_b=LEFT)
    found = happened(view(A, B), after, shard_a=3, shard_b=4)

    assert named(found) == {Kind.LOST: {A}, Kind.LEFT: {B}, Kind.JOINED: {C}}
    assert (found[Kind.LOST].objects, found[Kind.LEFT].objects) == (3, 4)


def test_an_evacuation_and_its_end_are_reported() -> None:
    ordinary, evacuating = view(A, B), view(A, B, evacuating=frozenset({A}))

    assert named(happened(ordinary, evacuating, shard_a=5)) == {Kind.EVACUATING: {A}}
    assert named(happened(evacuating, ordinary)) == {Kind.UNCORDONED: {A}}


def test_a_cordoned_shard_that_is_evacuated_is_not_uncordoned() -> None:
    cordoned, evacuating = view(A, cordoned=frozenset({A})), view(A, evacuating=frozenset({A}))

    assert named(happened(cordoned, evacuating)) == {Kind.EVACUATING: {A}}
    assert not happened(evacuating, cordoned)


def test_a_pause_and_its_end_are_reported() -> None:
    assert Kind.PAUSED in happened(view(A), view(A, paused=True))
    assert Kind.RESUMED in happened(view(A, paused=True), view(A))


def test_a_missing_shard_does_not_count_as_joined() -> None:
    now = snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING}))

    assert view_of(now, frozenset({A})).shards == {A}


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        (None, READY, Kind.JOINED),
        (None, LATE, Kind.JOINED),
        (LOST, READY, Kind.JOINED),
        (LATE, READY, Kind.READY),
        (MISSING, READY, Kind.READY),
        (READY, LATE, Kind.LATE),
        (READY, MISSING, Kind.MISSING),
        (READY, LEAVING, Kind.LEAVING),
        (LATE, LOST, Kind.LOST),
        (READY, LEFT, Kind.LEFT),
        (READY, None, Kind.LEFT),
        (MISSING, None, Kind.LOST),
        (LOST, None, None),
    ],
)
def test_each_change_of_a_shard_is_one_transition(
    was: ShardPhase | None, now: ShardPhase | None, kind: Kind | None
) -> None:
    before, after = (replace(view(), phases={A: phase} if phase else {}) for phase in (was, now))

    assert list(happened(before, after)) == ([kind] if kind else [])


def test_objects_that_are_not_counted_yet_are_not_reported() -> None:
    (left,) = transitions(view(A), view(), None)

    assert (left.kind, left.objects) == (Kind.LEFT, None)


def test_a_shard_that_leaves_because_it_cannot_work_says_why() -> None:
    found = transitions(view(A, B), view(C, shard_a=LEFT, shard_b=LOST), None, {A: "x", B: "y"})

    assert {each.kind: each.detail for each in found if each.detail} == {Kind.LEFT: "x"}


def after_the_end(holder: str | None) -> RingSnapshot:
    found = lease(B, holder=holder, seconds=30)
    validity = classify([lease(A), found], ())
    standings = {A: Standing.AVAILABLE, B: Standing.GONE}
    both = Members(standings=standings, stranger=Standing.GONE, namespaces={}, validity=validity)
    return snapshot(both)


def silence(holder: str | None) -> tuple[ShardPhase, float]:
    now, before = after_the_end(holder), view(A, B)
    phase = before.ended_in(view_of(now, before.shards))[B]
    return phase, silence_of(now, B, phase)


def test_a_released_lease_means_that_the_shard_has_left() -> None:
    assert silence("") == (LEFT, 0)


def test_a_taken_lease_means_that_the_shard_was_lost_so_long_ago() -> None:
    assert silence(SHARDER_IDENTITY) == (LOST, 30)


def test_a_shard_that_might_be_working_counts_although_its_lease_is_forgotten() -> None:
    doubtful = replace(members({A: Standing.AVAILABLE}), stranger=Standing.MISSING)

    assert view_of(snapshot(doubtful), frozenset({A, B})).phases == {A: READY, B: MISSING}


def status(*states: tuple[ShardName, str], truncated: bool = False) -> RingStatus:
    return RingStatus(
        shards=2,
        available_shards=1,
        shard_statuses=tuple(ShardStatus(name=name, state=state) for name, state in states),
        shard_statuses_truncated=truncated,
        conditions=(Condition(type="Paused", status="True"),),
    )


def test_a_new_leader_continues_where_the_status_ends() -> None:
    before = stored_view(status((A, "ready"), (B, "dead"), (C, "uncertain")), view(B))

    assert before.phases == {A: READY, C: LATE}
    assert before.paused


def test_shards_that_the_status_does_not_list_are_not_reported_as_new() -> None:
    listed = status((A, "ready"), truncated=True)

    assert stored_view(listed, view(B)).shards == {A, B}
    assert stored_view(status(), view(B)).shards == {B}


def test_the_first_shards_of_a_new_ring_are_reported() -> None:
    assert not stored_view(RingStatus(), view(A)).shards


def test_evacuating_and_cordoned_shards_are_taken_from_the_status() -> None:
    now = view()
    stored = RingStatus(
        shards=2,
        shard_statuses=(
            ShardStatus(name=A, state="ready", cordoned=True, evacuating=True),
            ShardStatus(name=B, state="ready", cordoned=True),
        ),
    )

    before = stored_view(stored, now)

    assert before.evacuating == {A}
    assert before.cordoned == {B}
