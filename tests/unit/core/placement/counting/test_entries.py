"""Facts of `sharder.core.placement.counting.entries`."""

from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entries, Entry

A, B = ShardName("shard-a"), ShardName("shard-b")


def test_groups_that_came_and_went_are_dropped() -> None:
    entries = Entries({1: Entry(A, (1,))})
    for group in range(2000):
        entries[1] = Entry(ShardName(f"shard-{group}"), (group,))

    before = entries.shared
    entries.tidy()

    assert (before, entries.shared) == (4001, 2)
    assert entries[1] == Entry(ShardName("shard-1999"), (1999,))


def test_little_is_not_worth_being_tidied() -> None:
    entries = Entries({1: Entry(A)})
    entries[1] = Entry(B)

    entries.tidy()

    assert entries.shared == 2
