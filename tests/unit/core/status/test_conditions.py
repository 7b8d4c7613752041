"""Facts about what the conditions of a ring say."""

from collections.abc import Sequence

import pytest

from sharder.core.api.ring import Condition, MovementSpec, RingStatus
from sharder.core.names import GroupResource
from sharder.core.status.conditions import (
    DesiredCondition,
    covered,
    exhausted,
    paused,
    ready,
    watched,
)
from sharder.core.status.stats import ObjectStats, Overdue
from tests.support.values import SECRETS, WIDGETS

NOTHING = RingStatus()
ONCE_PAUSED = RingStatus(conditions=(Condition(type="Paused", status="True"),))
LATE = Overdue(count=1, first="secrets default/slow")
ONCE_MISSING = RingStatus(conditions=(Condition(type="Watched", status="False"),))


def figures(
    objects: int = 10, *, unassigned: int = 0, unowned: int = 0, has_room: bool | None = None
) -> ObjectStats:
    return ObjectStats(
        objects=objects,
        unassigned=unassigned,
        draining=0,
        by_shard={},
        has_room=has_room,
        unowned=unowned,
    )


def said(claim: DesiredCondition | None) -> tuple[str, str, str]:
    assert claim is not None
    return claim.status, claim.reason, claim.message


def test_a_ring_that_nothing_keeps_from_working_is_ready() -> None:
    assert said(ready(None)) == ("True", "ReconciliationSucceeded", "ring is ready")


def test_a_problem_is_said() -> None:
    assert said(ready("cannot read x")) == ("False", "ReconciliationFailed", "cannot read x")


@pytest.mark.parametrize("unwatched", [(), None])
def test_a_ring_whose_resources_may_be_watched_says_nothing_of_it(
    unwatched: Sequence[GroupResource] | None,
) -> None:
    assert watched(NOTHING, unwatched, polled_every=30.0) is None


def test_a_missing_right_to_watch_is_said() -> None:
    assert said(watched(NOTHING, (SECRETS, WIDGETS), polled_every=30.0)) == (
        "False",
        "WatchMissing",
        "not allowed to watch, polling every 30s; "
        'add {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, patch]} and '
        '{apiGroups: ["example.com"], resources: [widgets], verbs: [get, list, watch, patch]} '
        "to the sharder's ClusterRole (in the chart: rings)",
    )


def test_a_right_to_watch_that_is_granted_is_said() -> None:
    assert said(watched(ONCE_MISSING, (), polled_every=30.0)) == (
        "True",
        "WatchAllowed",
        "allowed to watch all resources of the ring",
    )


def test_as_long_as_nobody_knows_what_was_said_of_watches_stays() -> None:
    assert watched(ONCE_MISSING, None, polled_every=30.0) is None


def test_a_ring_is_covered_when_every_object_has_an_available_owner() -> None:
    claim = covered(figures(), None, available=2)

    assert said(claim) == ("True", "AllOwned", "every object has an available owner")


def test_a_ring_without_objects_is_covered() -> None:
    assert said(covered(figures(0), None, available=2))[:2] == ("True", "AllOwned")


@pytest.mark.parametrize(("number", "objects"), [(1, "1 object"), (3, "3 objects")])
def test_a_ring_is_not_covered_while_objects_lack_an_available_owner(
    number: int, objects: str
) -> None:
    claim = covered(figures(unowned=number), None, available=2)

    assert said(claim) == ("False", "ObjectsUnassigned", f"{objects} without an available owner")


@pytest.mark.parametrize(
    "known",
    [None, figures(0), figures(), figures(unowned=10)],
    ids=["not counted", "no objects", "all owned", "none owned"],
)
def test_without_any_shard_a_ring_is_not_covered_whatever_was_counted(
    known: ObjectStats | None,
) -> None:
    claim = covered(known, None, available=0)

    assert said(claim) == ("False", "NoShards", "no shard is available")


def test_that_there_is_no_shard_is_no_matter_of_counts() -> None:
    claims = [covered(figures(), None, available=available) for available in (0, 2)]

    assert [claim.counted for claim in claims if claim is not None] == [False, True]


def test_as_long_as_nothing_is_counted_what_was_said_stays() -> None:
    assert covered(None, None, available=2) is None
    assert exhausted(None, available=2) is None


@pytest.mark.parametrize(("number", "drains"), [(1, "1 drain exceeds"), (3, "3 drains exceed")])
@pytest.mark.parametrize("known", [figures(), None], ids=["counted", "not counted"])
def test_a_ring_is_not_covered_while_drains_are_overdue(
    known: ObjectStats | None, number: int, drains: str
) -> None:
    claim = covered(known, Overdue(count=number, first=LATE.first), available=2)

    assert said(claim) == (
        "False",
        "DrainOverdue",
        f"{drains} spec.movement.drainTimeout, e.g. secrets default/slow",
    )


def test_that_drains_are_overdue_is_no_matter_of_counts() -> None:
    claim = covered(figures(), LATE, available=2)

    assert claim is not None
    assert not claim.counted


def test_objects_without_an_owner_are_told_before_overdue_drains() -> None:
    claim = covered(figures(unowned=3), LATE, available=2)

    assert said(claim) == (
        "False",
        "ObjectsUnassigned",
        "3 objects without an available owner; 1 drain exceeds"
        " spec.movement.drainTimeout, e.g. secrets default/slow",
    )


def test_without_any_shard_no_drain_is_waited_for() -> None:
    assert said(covered(figures(), LATE, available=0))[1] == "NoShards"


def test_a_ring_that_was_never_paused_says_nothing_of_it() -> None:
    assert paused(NOTHING, MovementSpec()) is None


@pytest.mark.parametrize("before", [NOTHING, ONCE_PAUSED], ids=["at first", "still"])
def test_a_ring_that_is_paused_says_so(before: RingStatus) -> None:
    assert said(paused(before, MovementSpec(paused=True))) == (
        "True",
        "MovementPaused",
        "movement is paused; only objects whose shard is gone are reassigned",
    )


def test_a_ring_that_is_paused_no_more_says_so() -> None:
    assert said(paused(ONCE_PAUSED, MovementSpec())) == (
        "False",
        "MovementActive",
        "movement is active",
    )


@pytest.mark.parametrize(("number", "objects"), [(1, "1 object"), (3, "3 objects")])
def test_capacity_is_exhausted_when_objects_wait_and_no_shard_has_room(
    number: int, objects: str
) -> None:
    claim = exhausted(figures(unassigned=number, has_room=False), available=2)

    assert said(claim) == (
        "True",
        "InsufficientCapacity",
        f"{objects} cannot be assigned: all shards are at capacity",
    )


@pytest.mark.parametrize(("unassigned", "has_room"), [(0, True), (0, False), (3, True)])
def test_capacity_suffices_while_nothing_waits_or_there_is_room(
    unassigned: int, has_room: bool
) -> None:
    claim = exhausted(figures(unassigned=unassigned, has_room=has_room), available=2)

    assert said(claim)[:2] == ("False", "SufficientCapacity")


def test_a_strategy_without_ceilings_says_nothing_of_capacity() -> None:
    claim = exhausted(figures(unassigned=3), available=2)

    assert claim is not None
    assert claim.holds is None


def test_without_any_shard_nothing_is_said_of_capacity() -> None:
    assert exhausted(figures(unassigned=3, has_room=False), available=0) is None


def test_a_claim_is_said_by_a_condition_with_its_status_and_reason() -> None:
    claim = DesiredCondition(type="Covered", holds=True, reason="AllOwned", message="3 objects")
    known = Condition(type="Covered", status="True", reason="AllOwned", message="4 objects")
    other = Condition(type="Covered", status="True", reason="Else")

    assert [claim.is_met_by(c) for c in (known, other, None)] == [True, False, False]


def test_a_claim_that_a_condition_does_not_apply_is_said_by_its_absence() -> None:
    claim = DesiredCondition(type="Covered", holds=None)

    assert [claim.is_met_by(c) for c in (None, Condition(type="Covered", status="False"))] == [
        True,
        False,
    ]
