"""Facts about what the conditions of a ring say."""

from collections.abc import Mapping, Sequence

import pytest

from sharder.core.api.ring import Condition, MovementSpec, RingStatus
from sharder.core.names import GroupResource, ShardName
from sharder.core.status.conditions import (
    DesiredCondition,
    Fault,
    covered,
    exhausted,
    paused,
    ready,
    reconciling,
    stalled,
    watched,
)
from sharder.core.status.stats import Apart, ObjectStats, Overdue
from tests.support.values import SECRETS, WIDGETS, A, B

NOTHING = RingStatus()
ONCE_PAUSED = RingStatus(conditions=(Condition(type="Paused", status="True"),))
LATE = Overdue(count=1, first="secrets default/slow")
ONCE_MISSING = RingStatus(conditions=(Condition(type="Watched", status="False"),))


def figures(
    objects: int = 10,
    *,
    unassigned: int = 0,
    unowned: int = 0,
    draining: int = 0,
    has_room: bool | None = None,
) -> ObjectStats:
    return ObjectStats(
        objects=objects,
        unassigned=unassigned,
        draining=draining,
        by_shard={},
        has_room=has_room,
        unowned=unowned,
    )


def said(condition: DesiredCondition | None) -> tuple[str, str, str]:
    assert condition is not None
    return condition.status, condition.reason, condition.message


def test_a_ring_that_nothing_keeps_from_working_is_ready() -> None:
    assert said(ready(None)) == ("True", "ReconciliationSucceeded", "ring is ready")


def test_a_problem_is_reported() -> None:
    fault = Fault("ResourceUnreadable", "cannot read x")

    assert said(ready(fault)) == ("False", *fault)


def test_a_fault_that_a_person_has_to_correct_stalls_the_ring() -> None:
    fault = Fault("InvalidSpec", "spec.resources: empty")

    assert said(stalled(fault)) == ("True", *fault)
    assert stalled(None).status == "False"


def test_a_fault_that_the_sharder_retries_does_not_stall_the_ring() -> None:
    fault = Fault("ReconciliationFailed", "no answer")

    assert stalled(fault).status == "False"
    assert said(at_work(None, fault)) == (
        "True",
        "ReconciliationFailed",
        "retrying: no answer",
    )


def at_work(
    stats: ObjectStats | None,
    fault: Fault | None = None,
    *,
    available: int = 1,
    is_paused: bool = False,
) -> DesiredCondition | None:
    return reconciling(stats, fault, available=available, paused=is_paused)


def test_a_ring_reconciles_while_objects_drain_or_have_no_available_owner() -> None:
    assert said(at_work(figures(draining=3, unowned=2))) == (
        "True",
        "ObjectsMoving",
        "3 objects draining, 2 without an available owner",
    )


def test_a_ring_does_not_reconcile_once_objects_are_where_they_belong() -> None:
    assert said(at_work(figures()))[:2] == ("False", "ObjectsSettled")


def test_a_ring_that_was_not_counted_has_no_reconciling_condition() -> None:
    assert at_work(None) is None


@pytest.mark.parametrize(
    ("stats", "available", "is_paused"),
    [
        pytest.param(figures(unassigned=2, unowned=2), 0, False, id="no shard"),
        pytest.param(figures(unassigned=2, unowned=2, has_room=False), 1, False, id="full"),
        pytest.param(figures(draining=2), 1, True, id="paused"),
    ],
)
def test_objects_that_wait_are_not_being_moved(
    stats: ObjectStats, available: int, is_paused: bool
) -> None:
    waiting = at_work(stats, available=available, is_paused=is_paused)

    assert said(waiting)[:2] == ("False", "ObjectsSettled")


@pytest.mark.parametrize("stats", [None, 0])
def test_controlled_objects_that_are_not_with_their_owners_are_reported(stats: int | None) -> None:
    apart = Apart(count=2, first="configmaps default/c")
    counted = None if stats is None else figures()

    assert said(covered(counted, None, available=1, apart=apart)) == (
        "False",
        "ControlledObjectsApart",
        "2 controlled objects are not on the shard of the parent, e.g. configmaps default/c; "
        "see the object's Events",
    )


@pytest.mark.parametrize("unwatched", [(), None])
def test_a_ring_whose_resources_can_be_watched_has_no_condition_of_watches(
    unwatched: Sequence[GroupResource] | None,
) -> None:
    assert watched(NOTHING, unwatched, {}, polled_every=30.0) is None


def test_a_missing_right_to_watch_is_reported() -> None:
    assert said(watched(NOTHING, (SECRETS, WIDGETS), {}, polled_every=30.0)) == (
        "False",
        "WatchMissing",
        "not allowed to watch, polling every 30s; "
        'add {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, patch]} and '
        '{apiGroups: ["example.com"], resources: [widgets], verbs: [get, list, watch, patch]} '
        "to the sharder's role (chart value rings)",
    )


def test_a_right_to_watch_that_is_granted_is_reported() -> None:
    assert said(watched(ONCE_MISSING, (), {}, polled_every=30.0)) == (
        "True",
        "WatchAllowed",
        "the sharder and all shards can watch the resources of the ring",
    )


@pytest.mark.parametrize("unwatched", [(), None])
@pytest.mark.parametrize(
    ("unable", "message"),
    [
        ({A: "cannot watch x"}, "shard shard-a cannot work: cannot watch x"),
        (
            {B: "no", A: "cannot watch x"},
            "shard shard-a and 1 other shard cannot work: cannot watch x",
        ),
    ],
)
def test_a_shard_that_cannot_work_is_reported(
    unwatched: Sequence[GroupResource] | None, unable: Mapping[ShardName, str], message: str
) -> None:
    found = said(watched(NOTHING, unwatched, unable, polled_every=30.0))

    assert found == ("False", "ShardUnable", message)


def test_the_condition_of_watches_stays_while_their_state_is_unknown() -> None:
    assert watched(ONCE_MISSING, None, {}, polled_every=30.0) is None


def test_a_ring_is_covered_when_every_object_has_an_available_owner() -> None:
    condition = covered(figures(), None, available=2)

    assert said(condition) == ("True", "AllOwned", "every object has an available owner")


def test_a_ring_without_objects_is_covered() -> None:
    assert said(covered(figures(0), None, available=2))[:2] == ("True", "AllOwned")


@pytest.mark.parametrize(("number", "objects"), [(1, "1 object"), (3, "3 objects")])
def test_a_ring_is_not_covered_while_objects_lack_an_available_owner(
    number: int, objects: str
) -> None:
    condition = covered(figures(unowned=number), None, available=2)

    assert said(condition) == (
        "False",
        "ObjectsUnassigned",
        f"{objects} without an available owner",
    )


@pytest.mark.parametrize(
    "known",
    [None, figures(0), figures(), figures(unowned=10)],
    ids=["not counted", "no objects", "all owned", "none owned"],
)
def test_without_any_shard_a_ring_is_not_covered_whatever_was_counted(
    known: ObjectStats | None,
) -> None:
    condition = covered(known, None, available=0)

    assert said(condition) == ("False", "NoShards", "no shard is available")


def test_the_absence_of_shards_needs_no_counts() -> None:
    desired = [covered(figures(), None, available=available) for available in (0, 2)]

    assert [condition.counted for condition in desired if condition is not None] == [False, True]


def test_the_conditions_of_counts_stay_until_objects_are_counted() -> None:
    assert covered(None, None, available=2) is None
    assert exhausted(None, available=2) is None


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (1, "1 drain exceeds spec.movement.drainTimeout: secrets default/slow"),
        (3, "3 drains exceed spec.movement.drainTimeout, e.g. secrets default/slow"),
    ],
)
@pytest.mark.parametrize("known", [figures(), None], ids=["counted", "not counted"])
def test_a_ring_is_not_covered_while_drains_are_overdue(
    known: ObjectStats | None, number: int, says: str
) -> None:
    condition = covered(known, Overdue(count=number, first=LATE.first), available=2)

    assert said(condition) == (
        "False",
        "DrainOverdue",
        f"{says}; see the object's Events",
    )


def test_overdue_drains_need_no_counts() -> None:
    condition = covered(figures(), LATE, available=2)

    assert condition is not None
    assert not condition.counted


def test_objects_without_an_owner_are_reported_before_overdue_drains() -> None:
    condition = covered(figures(unowned=3), LATE, available=2)

    assert said(condition) == (
        "False",
        "ObjectsUnassigned",
        "3 objects without an available owner; 1 drain exceeds"
        " spec.movement.drainTimeout: secrets default/slow; see the object's Events",
    )


def test_without_any_shard_no_drain_is_waited_for() -> None:
    assert said(covered(figures(), LATE, available=0))[1] == "NoShards"


def test_a_ring_that_was_never_paused_has_no_condition_for_it() -> None:
    assert paused(NOTHING, MovementSpec()) is None


@pytest.mark.parametrize("before", [NOTHING, ONCE_PAUSED], ids=["at first", "still"])
def test_a_ring_that_is_paused_says_so(before: RingStatus) -> None:
    assert said(paused(before, MovementSpec(paused=True))) == (
        "True",
        "MovementPaused",
        "movement is paused; only objects whose shard is gone are reassigned",
    )


def test_a_resumed_ring_says_so() -> None:
    assert said(paused(ONCE_PAUSED, MovementSpec())) == (
        "False",
        "MovementActive",
        "movement is active",
    )


@pytest.mark.parametrize(("number", "objects"), [(1, "1 object"), (3, "3 objects")])
def test_capacity_is_exhausted_when_objects_wait_and_no_shard_has_room(
    number: int, objects: str
) -> None:
    condition = exhausted(figures(unassigned=number, has_room=False), available=2)

    assert said(condition) == (
        "True",
        "InsufficientCapacity",
        f"{objects} cannot be assigned: all shards are at capacity; "
        "add shards, or raise their ceilings",
    )


@pytest.mark.parametrize(("unassigned", "has_room"), [(0, True), (0, False), (3, True)])
def test_capacity_suffices_while_nothing_waits_or_there_is_room(
    unassigned: int, has_room: bool
) -> None:
    condition = exhausted(figures(unassigned=unassigned, has_room=has_room), available=2)

    assert said(condition)[:2] == ("False", "SufficientCapacity")


def test_a_strategy_without_ceilings_has_no_condition_of_capacity() -> None:
    condition = exhausted(figures(unassigned=3), available=2)

    assert condition is not None
    assert condition.holds is None


def test_without_any_shard_there_is_no_condition_of_capacity() -> None:
    assert exhausted(figures(unassigned=3, has_room=False), available=0) is None


def test_a_desired_condition_is_met_by_one_with_its_status_and_reason() -> None:
    condition = DesiredCondition(
        type="Covered", holds=True, reason="AllOwned", message="3 objects"
    )
    known = Condition(type="Covered", status="True", reason="AllOwned", message="4 objects")
    other = Condition(type="Covered", status="True", reason="Else")

    assert [condition.is_met_by(c) for c in (known, other, None)] == [True, False, False]


def test_a_desired_absence_is_met_only_without_the_condition() -> None:
    condition = DesiredCondition(type="Covered", holds=None)

    assert [condition.is_met_by(c) for c in (None, Condition(type="Covered", status="False"))] == [
        True,
        False,
    ]
