"""Counts that follow every assignment between two whole counts."""

from dataclasses import replace

from sharder.controllers.counting.live_counts import MAX_SKIPPED, LiveCounts
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.leases.membership import Standing
from sharder.core.names import ObjectRef, ShardName
from sharder.core.status.stats import ObjectStats, Waiting
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, C, members, snapshot

NONE_WAIT = Waiting(0, 0)
KEY = ObjectKey(ResourceKey(DEMO, WIDGETS), ObjectRef("default", "w"))
OTHER = ObjectKey(ResourceKey(DEMO, SECRETS), ObjectRef("default", "s"))


def whole(**by_shard: int) -> ObjectStats:
    shards = {ShardName(name.replace("_", "-")): n for name, n in by_shard.items()}
    return ObjectStats(
        objects=sum(shards.values()),
        unassigned=0,
        draining=0,
        by_shard=shards,
        has_room=None,
        unowned=0,
    )


def live_counts(waiting: Waiting = NONE_WAIT) -> LiveCounts:
    return LiveCounts(lambda _: waiting)


def counts(live: LiveCounts) -> dict[ShardName, int]:
    stats = live.stats(snapshot())
    assert stats is not None
    return dict(stats.by_shard)


def test_nothing_is_known_before_the_first_count() -> None:
    live = live_counts()
    live.assigned(KEY, A, B)

    assert live.stats(snapshot()) is None


def test_an_assignment_moves_one_object() -> None:
    live = live_counts()
    live.counted(DEMO, whole(shard_a=2, shard_b=1))

    live.assigned(KEY, A, B)
    live.assigned(KEY, None, C)

    assert counts(live) == {A: 1, B: 2, C: 1}


def test_a_count_during_which_objects_moved_is_not_used_for_long() -> None:
    live = live_counts()
    live.counted(DEMO, whole(shard_a=2))
    found = []

    for _ in range(MAX_SKIPPED + 1):
        live.list_begins(KEY.resource_key)
        live.assigned(KEY, A, B)
        live.assigned(KEY, B, A)
        live.assigned(KEY, None, C)
        live.counted(DEMO, whole(shard_a=7))
        found.append(counts(live)[A])

    assert found == [2] * MAX_SKIPPED + [7]


def test_the_first_count_is_used_with_what_moved_since_its_lists_began() -> None:
    live = live_counts()
    live.assigned(KEY, A, B)
    live.list_begins(KEY.resource_key)
    live.assigned(KEY, A, B)
    live.list_begins(OTHER.resource_key)

    live.counted(DEMO, whole(shard_a=1, shard_b=1))

    assert counts(live) == {B: 2}


def test_a_released_object_is_counted_once() -> None:
    live = live_counts(Waiting(3, 0, {A: 2}))
    live.list_begins(KEY.resource_key)
    live.counted(DEMO, replace(whole(shard_a=5, shard_b=1), unassigned=3))
    stats = live.stats(snapshot())

    assert stats is not None
    assert (stats.by_shard, stats.unassigned, stats.objects) == ({A: 5, B: 1}, 3, 9)


def test_what_watches_show_is_newer_than_the_count() -> None:
    live = live_counts(Waiting(3, 1))
    live.counted(DEMO, whole(shard_a=2))

    stats = live.stats(snapshot())

    assert stats is not None
    assert (stats.objects, stats.unassigned, stats.draining, stats.unowned) == (5, 3, 1, 3)


def test_more_than_is_remembered_is_as_it_was_counted() -> None:
    live = live_counts(Waiting(None, None))
    live.counted(DEMO, whole(shard_a=2))

    stats = live.stats(snapshot())

    assert stats is not None
    assert (stats.unassigned, stats.draining) == (0, 0)


def test_the_objects_of_a_lost_shard_have_no_owner_at_once() -> None:
    live = live_counts()
    live.counted(DEMO, whole(shard_a=2, shard_b=5))
    lost = snapshot(members({A: Standing.AVAILABLE, B: Standing.GONE}))

    stats = live.stats(lost)

    assert stats is not None
    assert stats.unowned == 5


def test_fewer_objects_than_none_are_none() -> None:
    live = live_counts()
    live.counted(DEMO, whole())

    live.assigned(KEY, A, B)

    assert counts(live) == {B: 1}


def test_a_deleted_ring_is_forgotten() -> None:
    live = live_counts()
    live.counted(DEMO, whole(shard_a=2))

    live.forget(DEMO)

    assert live.stats(snapshot()) is None
