"""Facts about the status of a ring, and how fast it follows what is counted."""

from collections.abc import Iterable
from datetime import timedelta

from sharder.core.api.ring import Condition, RingStatus, ShardStatus
from sharder.core.status.conditions import ObjectStats, ready
from sharder.core.status.status import StatusThrottle, is_urgent, status_of, with_counts
from tests.support.values import NOW, snapshot

EMPTY = RingStatus()


def status(
    before: RingStatus = EMPTY,
    problem: str | None = None,
    *,
    desired: Iterable[Condition] = (),
    at: int = 0,
) -> RingStatus:
    return status_of(
        snapshot(),
        before,
        conditions=[ready({"webhook": problem}), *desired],
        now=NOW + timedelta(seconds=at),
    )


def counts(
    before: RingStatus = EMPTY,
    *,
    unassigned: int = 0,
    draining: int = 0,
    shards: tuple[ShardStatus, ...] = (),
    at: int = 0,
) -> RingStatus:
    figures = ObjectStats(
        objects=10,
        unassigned=unassigned,
        draining=draining,
        by_shard={},
        has_room=None,
        unowned=unassigned,
    )
    now = NOW + timedelta(seconds=at)
    return with_counts(before, figures, shards=shards, resync=None, now=now)


def shard(name: str, objects: int) -> ShardStatus:
    return ShardStatus(name=name, state="ready", objects=objects)


def full(message: str, status: str = "True") -> Condition:
    return Condition("CapacityExhausted", status, "InsufficientCapacity", message)


def test_the_transition_time_changes_when_the_condition_flips_and_only_then() -> None:
    before = status(problem="first")
    worse = status(before, "second", at=60)
    well = status(worse, at=120)

    times = [s.conditions[0].last_transition_time for s in (before, worse, well)]
    assert times == ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:02:00Z"]


def test_a_condition_that_does_not_apply_is_removed() -> None:
    before = status(desired=[full("x")])

    after = status(before, desired=[Condition("CapacityExhausted", "")])

    assert [condition.type for condition in before.conditions] == ["CapacityExhausted", "Ready"]
    assert after == status()


def test_since_when_objects_wait_stays_until_none_waits() -> None:
    first = counts(unassigned=3, draining=1)
    second = counts(first, unassigned=1, draining=5, at=60)
    third = counts(second, at=120)
    fourth = counts(third, unassigned=1, draining=1, at=180)

    assert [s.oldest_unassigned_since for s in (first, second, third, fourth)] == [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00Z",
        None,
        "2026-03-01T12:03:00Z",
    ]
    assert [s.oldest_drain_since for s in (first, second, third, fourth)] == [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00Z",
        None,
        "2026-03-01T12:03:00Z",
    ]


def test_no_more_than_200_shards_are_listed() -> None:
    shards = tuple(shard(f"s{n:03}", 500 - n) for n in range(201))
    exactly, more = counts(shards=shards[:200]), counts(shards=shards)

    assert (exactly.shard_statuses, exactly.shard_statuses_truncated) == (shards[:200], False)
    assert (more.shard_statuses, more.shard_statuses_truncated) == (shards[:200], True)


def test_a_number_in_a_message_is_not_urgent_but_what_the_condition_says_is() -> None:
    three = status(desired=[full("3 objects")])

    assert not is_urgent(status(desired=[full("4 objects")]), three)
    assert is_urgent(status(desired=[full("none", "False")]), three)


# How fast it follows


OWNED = Condition("Covered", "True", "AllOwned")
UNASSIGNED = Condition("Covered", "False", "ObjectsUnassigned")
KNOWN_OWNED = Condition(type="Covered", status="True", reason="AllOwned")


def test_a_change_that_was_interrupted_has_not_lasted() -> None:
    pace = StatusThrottle()

    believed = [
        pace.is_settled(condition, KNOWN_OWNED, 100 + seconds)
        for condition, seconds in ((UNASSIGNED, 0), (OWNED, 3), (UNASSIGNED, 6), (UNASSIGNED, 10))
    ]

    assert believed == [False, True, False, False]


def test_another_reason_is_another_doubt() -> None:
    pace, known = StatusThrottle(), Condition(type="Covered", status="False", reason="NoShards")

    believed = [
        pace.is_settled(condition, known, 100 + seconds)
        for condition, seconds in ((UNASSIGNED, 0), (OWNED, 4), (OWNED, 6), (OWNED, 9))
    ]

    assert believed == [False, False, False, True]


def test_a_doubt_is_to_be_looked_at_when_it_may_be_right() -> None:
    pace = StatusThrottle()
    pace.is_settled(UNASSIGNED, KNOWN_OWNED, 100)

    assert [pace.settles_in(at) for at in (100, 103, 105)] == [5, 2, None]


def test_counts_are_due_at_once_and_then_by_the_number_of_rings() -> None:
    pace = StatusThrottle()
    first = pace.counts_due_in(100, rings=1)
    pace.wrote(100)

    assert first == 0
    assert [pace.counts_due_in(100, rings=rings) for rings in (1, 100, 9999)] == [1, 5, 30]
    assert pace.counts_due_in(101, rings=1) == 0
