"""Facts of `sharder.core.placement.counting.entries`."""

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entries, Entry

A, B = ShardName("shard-a"), ShardName("shard-b")

some = st.builds(
    Entry,
    st.sampled_from([None, A, B]),
    st.sampled_from([(), (7,), (7, 8, 9)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
steps = st.lists(st.tuples(st.integers(0, 5), st.none() | some))


@given(steps)
def test_entries_are_a_mapping_like_any_other(changes: list[tuple[int, Entry | None]]) -> None:
    entries, plain = Entries(), dict[int, Entry]()

    for identity, entry in changes:
        for mapping in (entries, plain):
            if entry is None:
                mapping.pop(identity, None)
            else:
                mapping[identity] = entry
        entries.tidy()

    assert dict(entries) == plain
    assert len(entries) == len(plain)
    assert [identity in entries for identity in range(6)] == [i in plain for i in range(6)]


def test_entries_begin_with_what_they_are_made_from() -> None:
    entry = Entry(A, (7,), pinned=True)

    assert dict(Entries({1: entry})) == {1: entry}


def test_what_many_objects_have_in_common_is_kept_once() -> None:
    entries = Entries()
    for identity in range(10):
        entries[identity] = Entry(A, tuple(range(7, 9)))

    assert len({id(entry.groups) for entry in entries.values()}) == 1


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
