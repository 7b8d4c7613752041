"""Facts about what the conditions of a ring say."""

import pytest

from sharder.core.api.ring import Condition, MovementSpec, RingStatus
from sharder.core.status.conditions import (
    ObjectStats,
    Troubled,
    covered,
    exhausted,
    is_counted,
    paused,
    ready,
    watched,
)
from tests.support.values import SECRETS, WIDGETS, A, B

NOTHING = RingStatus()
ONCE_PAUSED = RingStatus(conditions=(Condition(type="Paused", status="True"),))
ONCE_MISSING = RingStatus(conditions=(Condition(type="Watched", status="False"),))
LATE = Troubled(count=1, first="secrets default/slow")
APART = Troubled(count=2, first="configmaps default/c")


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


def full(unassigned: int, *, has_room: bool | None, available: int = 2) -> Condition | None:
    return exhausted(figures(unassigned=unassigned, has_room=has_room), available=available)


ROOM = "False SufficientCapacity: no object waits for room on a shard"

CASES = {
    "a ring that nothing keeps from working is ready": (
        ready({"strategy": None}),
        "True ReconciliationSucceeded: ring is ready",
    ),
    "the most important problem is the reason, and the message has them all": (
        ready({"resync": "cannot read x", "spec": "y is invalid", "webhook": None}),
        "False InvalidSpec: cannot read x; y is invalid",
    ),
    "watches that are there have no condition": (
        watched(NOTHING, (), {}, polled_every=30.0),
        "stays",
    ),
    "a missing right to watch is reported with the rule": (
        watched(NOTHING, (SECRETS, WIDGETS), {}, polled_every=30.0),
        "False WatchMissing: not allowed to watch, polling every 30s; "
        'add {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, patch]} and '
        '{apiGroups: ["example.com"], resources: [widgets], verbs: [get, list, watch, patch]} '
        "to the sharder's role (chart value rings)",
    ),
    "a right to watch that was granted is reported": (
        watched(ONCE_MISSING, (), {}, polled_every=30.0),
        "True WatchAllowed: the sharder and all shards can watch the resources of the ring",
    ),
    "a shard that cannot work is reported": (
        watched(NOTHING, (), {A: "cannot watch x"}, polled_every=30.0),
        "False ShardUnable: shard shard-a cannot work: cannot watch x",
    ),
    "the first of two shards that cannot work is reported though watches are unknown": (
        watched(NOTHING, None, {B: "no", A: "cannot watch x"}, polled_every=30.0),
        "False ShardUnable: shard shard-a and 1 other shard cannot work: cannot watch x",
    ),
    "a ring is covered when every object has an available owner": (
        covered(figures(), None, available=2),
        "True AllOwned: every object has an available owner",
    ),
    "a ring is not covered while an object lacks an available owner": (
        covered(figures(unowned=1), None, available=2),
        "False ObjectsUnassigned: 1 object without an available owner",
    ),
    "a ring that was not counted is not known to be covered": (
        covered(None, None, available=2),
        "stays",
    ),
    "a ring is not covered while a drain is overdue": (
        covered(None, LATE, available=2),
        "False DrainOverdue: 1 drain exceeds spec.movement.drainTimeout: secrets default/slow; "
        "see the object's Events",
    ),
    "the first of many overdue drains is named": (
        covered(figures(), Troubled(count=3, first=LATE.first), available=2),
        "False DrainOverdue: 3 drains exceed spec.movement.drainTimeout, e.g. secrets "
        "default/slow; see the object's Events",
    ),
    "objects without an owner are reported before overdue drains": (
        covered(figures(unowned=3), LATE, available=2),
        "False ObjectsUnassigned: 3 objects without an available owner; 1 drain exceeds "
        "spec.movement.drainTimeout: secrets default/slow; see the object's Events",
    ),
    "a ring is not covered while controlled objects are apart": (
        covered(figures(), None, available=1, apart=APART),
        "False ControlledObjectsApart: 2 controlled objects are not on the shard of the parent, "
        "e.g. configmaps default/c; see the object's Events",
    ),
    "what cannot be read is not known to be covered": (
        covered(figures(), None, available=1, uncounted=["secrets in x"]),
        "Unknown ObjectsUncounted: cannot read secrets in x; see Ready",
    ),
    "objects without an owner are reported beside what cannot be read": (
        covered(figures(unowned=1), None, available=1, uncounted=["secrets in x"]),
        "Unknown ObjectsUncounted: cannot read secrets in x; see Ready; by the last counts, "
        "1 object without an available owner",
    ),
    "a ring that was never paused has no condition for it": (
        paused(NOTHING, MovementSpec()),
        "stays",
    ),
    "a paused ring says so": (
        paused(NOTHING, MovementSpec(paused=True)),
        "True MovementPaused: movement is paused; only objects whose shard is gone are reassigned",
    ),
    "a resumed ring says so": (
        paused(ONCE_PAUSED, MovementSpec()),
        "False MovementActive: movement is active",
    ),
    "capacity is exhausted when objects wait and no shard has room": (
        full(1, has_room=False),
        "True InsufficientCapacity: 1 object cannot be assigned: all shards are at capacity; "
        "add shards, or raise their ceilings",
    ),
    "capacity suffices while nothing waits": (full(0, has_room=False), ROOM),
    "a strategy without ceilings has no capacity": (full(3, has_room=None), "does not apply"),
    "without any shard nothing is said of capacity": (
        full(3, has_room=False, available=0),
        "stays",
    ),
    "without counts nothing is said of capacity": (exhausted(None, available=2), "stays"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_condition_says(case: str) -> None:
    found, said = CASES[case]

    if found is None:
        assert said == "stays"
    elif not found.status:
        assert said == "does not apply"
    else:
        assert f"{found.status} {found.reason}: {found.message}" == said


@pytest.mark.parametrize(
    ("available", "late", "counted"), [(0, None, False), (2, LATE, False), (2, None, True)]
)
def test_what_says_that_a_ring_is_not_covered_may_need_no_counts(
    available: int, late: Troubled | None, counted: bool
) -> None:
    found = covered(figures(), late, available=available)

    assert found is not None
    assert is_counted(found) is counted
