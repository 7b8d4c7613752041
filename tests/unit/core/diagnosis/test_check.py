"""Facts about what `sharder check` finds of a ring."""

from datetime import timedelta

import msgspec
import pytest

from sharder.core.api.lease import Lease, to_the_second
from sharder.core.api.ring import Condition, ControllerRing, RingStatus
from sharder.core.diagnosis.finding import Finding, Level
from sharder.core.diagnosis.ring import (
    DRAINING,
    WAITING,
    RingFacts,
    about_ring,
    findings_of,
    unreadable,
)
from sharder.core.diagnosis.shards import ShardFacts
from sharder.core.names import PROBLEM_ANNOTATION
from sharder.core.plan.observe import members_of
from sharder.core.status.phases import ShardPhase
from tests.support.alerts import FILE as ALERTS
from tests.support.values import NOW, A, B, C, available, lease, ring

READY = Condition(type="Ready", status="True", reason="ReconciliationSucceeded")


def reported(*conditions: Condition, seen: int = 1, draining: int = 0) -> ControllerRing:
    """A ring with these conditions, and drains that began at `NOW`."""
    status = RingStatus(
        observed_generation=seen,
        conditions=(*conditions, READY),
        draining=draining,
        oldest_drain_since=to_the_second(NOW),
    )
    return msgspec.structs.replace(ring(), status=status)


def faults(
    of: ControllerRing, *leases: Lease, age: timedelta = timedelta(seconds=2)
) -> list[Finding]:
    """Return what is not in order some time after `NOW`."""
    members = members_of(of, leases or (lease(A, seconds=900),))
    found = about_ring(of, members, NOW + age)
    return [each for each in found if each.level is not Level.OK]


@pytest.mark.parametrize(
    ("kind", "status", "reason", "level"),
    [
        ("Ready", "False", "ReconciliationFailed", Level.FAIL),
        ("Covered", "False", "ObjectsUnassigned", Level.WARN),
        ("Covered", "False", "ControlledObjectsApart", Level.WARN),
        ("Covered", "Unknown", "ObjectsUncounted", Level.WARN),
        ("CapacityExhausted", "True", "InsufficientCapacity", Level.WARN),
        ("Watched", "False", "WatchMissing", Level.WARN),
        ("Fenced", "False", "Outdated", Level.WARN),
    ],
)
def test_each_condition_with_a_fault_is_a_line_with_its_message(
    kind: str, status: str, reason: str, level: Level
) -> None:
    condition = Condition(type=kind, status=status, reason=reason, message="because")

    (found,) = faults(reported(condition))

    assert (found.level, found.why) == (level, "because")
    assert found.run


def test_objects_that_have_just_begun_to_wait_are_no_fault_yet() -> None:
    since = to_the_second(NOW)
    waits = Condition(
        type="Covered", status="False", reason="ObjectsUnassigned", last_transition_time=since
    )

    assert faults(reported(waits), age=WAITING - timedelta(seconds=1)) == []
    assert [each.check for each in faults(reported(waits), age=WAITING)] == ["ring"]


def test_a_drain_is_a_warning_after_a_minute_or_its_timeout() -> None:
    draining = reported(draining=4)
    late = Condition(type="Covered", status="False", reason="DrainOverdue")

    assert faults(draining, age=DRAINING - timedelta(seconds=1)) == []
    (found,) = faults(draining, age=DRAINING)
    assert (found.level, found.message) == (Level.WARN, "4 drains not acknowledged")
    assert found.run == ("sharder objects demo --draining",)
    assert [each.message for each in faults(reported(late, draining=4))] == [found.message]


def test_a_shard_that_has_left_is_no_fault() -> None:
    assert faults(reported(), lease(A), lease(B, holder="")) == []


def test_a_shard_that_cannot_work_is_named_with_the_reason_and_only_once() -> None:
    def unable(each: Lease) -> Lease:
        annotations = {PROBLEM_ANNOTATION: "cannot watch x"}
        metadata = msgspec.structs.replace(each.metadata, annotations=annotations)
        return msgspec.structs.replace(each, metadata=metadata)

    condition = Condition(type="Watched", status="False", reason="ShardUnable")

    found = faults(reported(condition), unable(lease(A)), unable(lease(B, holder="")))

    assert [(each.level, each.message) for each in found] == [
        (Level.FAIL, "shard-a keeps its objects but cannot watch x"),
        (Level.WARN, "shard-b left: cannot watch x"),
    ]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            lease(B, renewed=NOW - timedelta(seconds=60)),
            "shard shard-b is late: has not renewed the Lease since ",
        ),
        (
            lease(B, renewed=NOW + timedelta(seconds=62)),
            "shard-b renewed the Lease 60s in the future => correct the clock",
        ),
        (lease(B, seconds=None), f"1 invalid Lease: default/{B}: "),
        (lease(C, namespace="b"), f"shard {C} is missing: no held Lease, or another shard of "),
    ],
    ids=["late", "future", "invalid", "held twice"],
)
def test_a_lease_with_a_fault_is_named(bad: Lease, said: str) -> None:
    (found,) = faults(reported(), lease(A), lease(C), bad)

    assert found.level is Level.WARN
    assert found.said.startswith(said)


def test_the_alert_on_waiting_objects_has_the_same_limit() -> None:
    limit = f"controller_sharding_unassigned_oldest_seconds) > {WAITING.total_seconds():.0f}\n"

    assert limit in ALERTS.read_text()


@pytest.mark.parametrize(
    ("of", "level"), [(reported(seen=0), Level.WARN), (ring(), Level.FAIL)], ids=["edit", "ring"]
)
def test_what_no_leader_has_seen_is_named(of: ControllerRing, level: Level) -> None:
    assert [(each.check, each.level) for each in faults(of)] == [("ring", level)]


def test_objects_without_a_controller_are_counted_and_are_no_fault() -> None:
    status = msgspec.structs.replace(reported().status, uncontrolled=4)
    of = msgspec.structs.replace(ring(), status=status)

    found = list(about_ring(of, members_of(of, [lease(A)]), NOW))

    assert {each.level for each in found} == {Level.OK}
    assert any(each.message.startswith("4 objects of controlled resources") for each in found)


# What the facts about a ring and its shards say


@pytest.mark.parametrize(
    ("phase", "says"),
    [
        (ShardPhase.LOST, "shard shard-a is lost: 1 object waits for another shard"),
        (ShardPhase.LATE, "shard shard-a is late"),
        (ShardPhase.MISSING, "shard shard-a is missing"),
    ],
)
def test_a_shard_in_trouble_is_named(phase: ShardPhase, says: str) -> None:
    shard = ShardFacts(name=A, phase=phase, objects=1, silent_since=NOW)

    found = findings_of(RingFacts(ring=ring(), members=available(A), shards=[shard]), NOW)

    assert found[0].message == says


def test_a_ring_without_objects_says_when_they_come() -> None:
    found = findings_of(RingFacts(ring=ring(), members=available(A), objects=0), NOW)

    assert [each.message for each in found] == ["no objects counted yet"]


def test_a_ring_of_a_later_release_is_named_with_what_to_do() -> None:
    found = unreadable(ring().name, "unknown strategy")

    assert (found.level, found.why) == (Level.FAIL, "unknown strategy")
    assert "upgrade the sharder" in (found.advice or "")
