"""Facts about `sharder.core.check.ring`: rings by their conditions, shards by their Leases."""

from datetime import timedelta

import msgspec
import pytest

from sharder.core.api.lease import Lease, to_the_second
from sharder.core.api.ring import Condition, ControllerRing, RingStatus
from sharder.core.check.finding import Finding, Level
from sharder.core.check.ring import ring as check_ring
from sharder.core.check.ring import shards, strangers
from sharder.core.names import PROBLEM_ANNOTATION, RingName
from sharder.core.preview.observe import members_of
from tests.support.values import DEMO, NOW, A, B, lease, ring

SOON = NOW + timedelta(seconds=2)


def reported(*conditions: tuple[str, str, str], seen: int = 1) -> ControllerRing:
    """A ring with conditions of these types, statuses and reasons."""
    status = RingStatus(
        observed_generation=seen,
        shards=3,
        available_shards=2,
        conditions=tuple(
            Condition(type=kind, status=status, reason=reason, message="because")
            for kind, status, reason in conditions
        ),
    )
    return msgspec.structs.replace(ring(), status=status)


READY = ("Ready", "True", "ReconciliationSucceeded")


@pytest.mark.parametrize(
    ("condition", "level"),
    [
        (("Ready", "False", "ReconciliationFailed"), Level.FAIL),
        (("Covered", "False", "ObjectsUnassigned"), Level.WARN),
        (("Covered", "False", "NoShards"), Level.FAIL),
        (("Covered", "Unknown", "ObjectsUncounted"), Level.WARN),
        (("CapacityExhausted", "True", "InsufficientCapacity"), Level.WARN),
        (("Watched", "False", "WatchMissing"), Level.WARN),
        (("Paused", "True", "MovementPaused"), Level.WARN),
    ],
    ids=lambda value: value[2] if isinstance(value, tuple) else "",
)
def test_each_condition_with_a_fault_is_a_line_with_its_message(
    condition: tuple[str, str, str], level: Level
) -> None:
    conditions = {each[0]: each for each in (READY, condition)}

    (found,) = check_ring(reported(*conditions.values()), SOON)

    assert found.level is level
    assert "because" in found.message
    assert found.advice is not None
    assert "{" not in found.advice


def test_objects_without_a_controller_are_counted_and_are_no_fault() -> None:
    healthy = reported(READY)
    status = msgspec.structs.replace(healthy.status, uncontrolled=4)

    ready, found = check_ring(msgspec.structs.replace(healthy, status=status), NOW)

    assert {ready.level, found.level} == {Level.OK}
    assert found.message.startswith("4 objects of controlled resources without a controller")


def test_an_edit_that_no_leader_has_seen_is_a_warning() -> None:
    (found,) = check_ring(reported(READY, seen=0), SOON)

    assert found.level is Level.WARN


@pytest.mark.parametrize(("seconds", "is_long"), [(60, False), (61, True)])
def test_a_drain_that_is_open_for_more_than_a_minute_is_a_warning(
    seconds: int, is_long: bool
) -> None:
    drains = msgspec.structs.replace(
        reported(READY).status, draining=4, oldest_drain_since=to_the_second(NOW)
    )
    draining = msgspec.structs.replace(ring(), status=drains)

    (found,) = check_ring(draining, NOW + timedelta(seconds=seconds))

    assert (found.level is Level.WARN) is is_long
    if is_long:
        assert found.message == "4 objects draining, the oldest for 1m1s"
        assert found.advice == ("see which, and on which shards: sharder objects demo --draining")


def test_a_ring_without_status_fails() -> None:
    (found,) = check_ring(ring(), SOON)

    assert found.level is Level.FAIL


def of_shards(*leases: Lease, age: timedelta = timedelta(seconds=2)) -> list[Finding]:
    return [*shards(ring(), members_of(ring(), leases), NOW + age)]


def test_a_shard_that_has_left_is_no_fault() -> None:
    assert [each.level for each in of_shards(lease(A), lease(B, holder=""))] == [Level.OK]


def test_a_shard_that_cannot_work_is_named_with_the_reason() -> None:
    def unable(each: Lease) -> Lease:
        metadata = msgspec.structs.replace(
            each.metadata, annotations={PROBLEM_ANNOTATION: "cannot watch x"}
        )
        return msgspec.structs.replace(each, metadata=metadata)

    found = of_shards(unable(lease(A)), unable(lease(B, holder="")))

    assert [(each.level, each.message) for each in found] == [
        (Level.FAIL, "shard-a keeps its objects but cannot watch x"),
        (Level.WARN, "shard-b left: cannot watch x"),
    ]
    (known,) = check_ring(reported(READY, ("Watched", "False", "ShardUnable")), NOW)
    assert known.level is Level.OK


def test_a_shard_that_renews_too_late_is_named() -> None:
    late = lease(B, renewed=NOW - timedelta(seconds=60))

    (found,) = of_shards(lease(A), late)

    assert found.level is Level.WARN
    assert found.message.startswith(f"{B} has not renewed its Lease for 1m2s: it is late")


def test_a_lease_that_was_renewed_in_the_future_is_named() -> None:
    (found,) = of_shards(lease(A), lease(B, renewed=NOW + timedelta(seconds=62)))

    assert found.level is Level.WARN
    assert f"{B} renewed its Lease 60s in the future" in found.message


def test_a_ring_without_an_available_shard_fails() -> None:
    assert [each.level for each in of_shards()] == [Level.FAIL]
    assert of_shards(lease(A, holder=""))[-1].level is Level.FAIL


def test_the_first_of_many_faults_are_named_and_the_rest_counted() -> None:
    many = [lease(f"shard-{number:02}", seconds=None) for number in range(12)]

    findings = of_shards(lease(A), *many)

    assert len(findings) == 11
    assert findings[-1].message == "2 more Leases with faults"


def test_a_held_lease_of_a_ring_that_does_not_exist_is_named() -> None:
    others = [lease(A), lease(B, of="gone"), lease("left", of="gone", holder="")]

    (found,) = strangers(others, {RingName(DEMO): ring()})

    assert found.level is Level.WARN
    assert f"default/{B} names the ring gone" in found.message
