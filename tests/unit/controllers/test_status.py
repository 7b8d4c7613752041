"""Facts about the status of a ring."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from sharder.api.ring import Condition, RingStatus
from sharder.controllers.status import encode_status, status_of
from sharder.names import GroupResource
from tests.support.values import NOW, SECRETS, WIDGETS, ring

EMPTY = RingStatus()


def status(
    before: RingStatus = EMPTY,
    problem: str | None = None,
    *,
    unwatched: Sequence[GroupResource] | None = None,
    at: int = 0,
) -> RingStatus:
    return status_of(
        ring(generation=3),
        before,
        shards=3,
        available=2,
        problem=problem,
        unwatched=unwatched,
        now=NOW + timedelta(seconds=at),
    )


def test_a_ring_without_problems_is_ready() -> None:
    assert status() == RingStatus(
        observed_generation=3,
        shards=3,
        available_shards=2,
        conditions=(
            Condition(
                type="Ready",
                status="True",
                reason="ReconciliationSucceeded",
                message="the ring works",
                observed_generation=3,
                last_transition_time="2026-03-01T12:00:00Z",
            ),
        ),
    )


def test_a_problem_is_said() -> None:
    (ready,) = status(problem="cannot read widgets").conditions

    assert (ready.status, ready.reason, ready.message) == (
        "False",
        "ReconciliationFailed",
        "cannot read widgets",
    )


def test_nothing_new_to_say_is_the_same_status() -> None:
    assert status(status(), at=60) == status()


def test_the_transition_time_changes_when_the_condition_flips_and_only_then() -> None:
    before = status(problem="first")
    worse = status(before, "second", at=60)
    well = status(worse, at=120)

    times = [s.conditions[0].last_transition_time for s in (before, worse, well)]
    assert times == ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:02:00Z"]


def test_the_conditions_of_others_are_kept_in_order() -> None:
    theirs = (Condition(type="Zoned", status="True"), Condition(type="Audited", status="False"))

    after = status(RingStatus(conditions=theirs))

    assert [condition.type for condition in after.conditions] == ["Audited", "Ready", "Zoned"]


def test_a_status_is_written_as_a_merge_patch_that_reads_back_as_it_was() -> None:
    body = encode_status(status(problem="x"))

    assert isinstance(body, dict)
    assert list(body) == ["status"]
    assert msgspec.convert(body["status"], RingStatus) == status(problem="x")


def test_a_ring_whose_resources_may_be_watched_says_nothing_of_it() -> None:
    assert status(unwatched=()) == status(unwatched=None) == status()


def test_a_missing_right_to_watch_is_said_and_the_ring_is_ready_all_the_same() -> None:
    ready, watched = status(unwatched=(SECRETS, WIDGETS)).conditions

    assert (ready.type, ready.status) == ("Ready", "True")
    assert watched == Condition(
        type="Watched",
        status="False",
        reason="WatchMissing",
        message=(
            "listed every 30 s instead of watched: "
            'add {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, patch]} and '
            '{apiGroups: ["example.com"], resources: [widgets], verbs: [get, list, watch, patch]} '
            "to the sharder's ClusterRole (in the chart: shardedResources)"
        ),
        observed_generation=3,
        last_transition_time="2026-03-01T12:00:00Z",
    )


def test_a_right_to_watch_that_is_granted_is_said() -> None:
    before = status(unwatched=(SECRETS,))
    after = status(before, unwatched=(), at=60)
    later = status(after, unwatched=(), at=120)

    watched = after.conditions[1]
    assert (watched.status, watched.reason) == ("True", "WatchAllowed")
    assert watched.last_transition_time == "2026-03-01T12:01:00Z"
    assert later == after


def test_as_long_as_it_is_not_known_what_may_be_watched_nothing_changes() -> None:
    before = status(unwatched=(SECRETS,))

    assert status(before, unwatched=None, at=60) == before
