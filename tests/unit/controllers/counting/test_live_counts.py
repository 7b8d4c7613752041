"""Counts that follow every assignment between two counts."""

from collections import Counter
from dataclasses import replace

from sharder.controllers.counting.live_counts import MAX_SKIPPED, LiveCounts
from sharder.controllers.counting.resync_stats import PartCounts
from sharder.controllers.scope import ObjectKey, Part, ResourceKey
from sharder.core.leases.membership import Standing
from sharder.core.names import ObjectRef, ShardName
from sharder.core.status.stats import Waiting
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, C, members, snapshot

NONE_WAIT = Waiting(0, 0)
KEY = ObjectKey(ResourceKey(DEMO, WIDGETS), ObjectRef("default", "w"))
OTHER = ObjectKey(ResourceKey(DEMO, SECRETS), ObjectRef("default", "s"))
PART, OTHER_PART = (Part(key.resource_key, "default") for key in (KEY, OTHER))


def whole(**by_shard: int) -> PartCounts:
    return PartCounts(
        Counter({ShardName(n.replace("_", "-")): number for n, number in by_shard.items()})
    )


def live_counts(released: dict[ShardName, int] | None = None) -> LiveCounts:
    return LiveCounts(lambda _: Counter(released or {}))


def count(
    live: LiveCounts, part: Part, found: PartCounts, uncontrolled: int | None = None
) -> None:
    live.counted(part, live.list_begins(part), found, uncontrolled=uncontrolled)


def counts(live: LiveCounts, waiting: Waiting = NONE_WAIT) -> dict[ShardName, int]:
    return dict(live.stats(snapshot(), waiting).by_shard)


def test_an_assignment_moves_one_object() -> None:
    live = live_counts()
    count(live, PART, whole(shard_a=2, shard_b=1))

    live.assigned(KEY, A, B)
    live.assigned(KEY, None, C)

    assert counts(live) == {A: 1, B: 2, C: 1}


def test_a_count_during_which_objects_moved_is_not_used_for_long() -> None:
    live = live_counts()
    count(live, PART, whole(shard_a=2))
    found = []

    for _ in range(MAX_SKIPPED + 1):
        began = live.list_begins(PART)
        live.assigned(KEY, A, B)
        live.assigned(KEY, B, A)
        live.assigned(KEY, None, C)
        live.counted(PART, began, whole(shard_a=7))
        found.append(counts(live)[A])

    assert found == [2] * MAX_SKIPPED + [7]


def test_the_first_count_is_used_with_what_moved_since_its_list_began() -> None:
    live = live_counts()
    live.assigned(KEY, A, B)
    began = live.list_begins(PART)
    live.assigned(KEY, A, B)

    live.counted(PART, began, whole(shard_a=1, shard_b=1))

    assert counts(live) == {B: 2}


def test_each_part_has_a_list_of_its_own() -> None:
    live = live_counts()
    for part in (PART, OTHER_PART):
        count(live, part, whole(shard_a=2))
    live.assigned(KEY, A, B)
    live.assigned(OTHER, A, B)

    count(live, OTHER_PART, whole(shard_a=5))

    assert counts(live) == {A: 6, B: 1}


def test_a_part_that_is_not_counted_again_keeps_its_counts_while_it_is_one() -> None:
    live = live_counts()
    for part in (PART, OTHER_PART, Part(KEY.resource_key, "left")):
        count(live, part, whole(shard_a=2), uncontrolled=1)
    count(live, PART, whole(shard_b=1))

    live.keep(snapshot())

    assert counts(live) == {A: 2, B: 1}
    assert live.uncontrolled(DEMO) == 2


def test_a_released_object_is_counted_once() -> None:
    live = live_counts({A: 2})
    count(live, PART, replace(whole(shard_a=5, shard_b=1), unassigned=3))

    stats = live.stats(snapshot(), Waiting(3, 0, {A: 2}))

    assert (stats.by_shard, stats.unassigned, stats.objects) == ({A: 5, B: 1}, 3, 9)


def test_what_watches_show_is_newer_than_the_count() -> None:
    live = live_counts()
    count(live, PART, whole(shard_a=2))

    stats = live.stats(snapshot(), Waiting(3, 1))

    assert (stats.objects, stats.unassigned, stats.draining, stats.unowned) == (5, 3, 1, 3)


def test_more_than_is_remembered_is_as_it_was_counted() -> None:
    live = live_counts()
    count(live, PART, whole(shard_a=2))

    stats = live.stats(snapshot(), Waiting(None, None))

    assert (stats.unassigned, stats.draining) == (0, 0)


def test_the_objects_of_a_lost_shard_have_no_owner_at_once() -> None:
    live = live_counts()
    count(live, PART, whole(shard_a=2, shard_b=5))
    lost = snapshot(members({A: Standing.AVAILABLE, B: Standing.GONE}))

    stats = live.stats(lost, NONE_WAIT)

    assert stats.unowned == 5


def test_fewer_objects_than_none_are_none() -> None:
    live = live_counts()
    count(live, PART, whole())

    live.assigned(KEY, A, B)

    assert counts(live) == {B: 1}


def test_a_deleted_ring_is_forgotten() -> None:
    live = live_counts()
    count(live, PART, whole(shard_a=2))

    live.forget(DEMO)

    assert counts(live) == {}
