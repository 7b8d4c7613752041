"""Facts about `sharder.core.placement.tally`: what is counted, and what is assumed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.placement.counts import Entry
from sharder.core.placement.tally import BRIEF_LIVES, LIVES, Reservation, Tally
from tests.support.values import A, B, C

WIDGETS, SECRETS = "widgets", "secrets"
"""Parts."""
X, Y = 7, 8
"""Groups."""


def counted(*entries: Entry) -> Tally:
    """Widgets that are numbered from 0."""
    tally = Tally()
    for identity, entry in enumerate(entries):
        tally.see(WIDGETS, identity, entry)
    return tally


def sums(tally: Tally) -> dict[str, object]:
    """All that is summed up."""
    return {
        "objects": tally.objects,
        "unassigned": tally.unassigned,
        "draining": tally.draining,
        "on": {s: tally.on(s) for s in (A, B, C) if tally.on(s)},
        "staying": {s: tally.staying_on(s) for s in (A, B, C) if tally.staying_on(s)},
        "pinned": {s: tally.pinned_on(s) for s in (A, B, C) if tally.pinned_on(s)},
        "members": {
            (g, s): tally.members_of(g).get(s, 0)
            for g in (X, Y)
            for s in (A, B, C)
            if tally.members_of(g).get(s, 0)
        },
    }


STORY = [
    (Entry(A, pinned=True), 6, B),  # what another client has changed before
    (Entry(A, pinned=True), 7, B),
    (Entry(B), 8, None),
    (Entry(None), 9, None),
]


@pytest.mark.parametrize(("shown", "version", "reserved"), STORY)
def test_an_assumption_holds_until_a_later_version_is_shown(
    shown: Entry, version: int, reserved: str | None
) -> None:
    tally = counted(Entry(A))
    tally.assume(Reservation(0, Entry(B), 7))

    tally.see(WIDGETS, 0, shown, version)

    assert tally.reserved(0) == reserved
    assert sums(tally) == sums(counted(Entry(B) if reserved else shown))


def test_a_reservation_is_given_back_unless_another_has_taken_its_place() -> None:
    tally = Tally()
    reserved, written = Reservation(9, Entry(B)), Reservation(9, Entry(B))

    tally.assume(reserved)
    tally.assume(written)
    tally.give_back(reserved)
    assert tally.on(B) == 1

    tally.give_back(written)
    tally.give_back(written)
    assert tally.on(B) == 0


def test_a_request_that_is_not_seen_carried_out_is_given_up_soon_while_the_watch_is_live() -> None:
    tally = Tally()
    tally.assume(Reservation(9, Entry(B)), brief=True)
    tally.assume(Reservation(8, Entry(B)))

    for number in range(BRIEF_LIVES):
        tally.see(WIDGETS, number, Entry(A))
        tally.age()
    assert tally.on(B) == 2

    tally.see(WIDGETS, 7, Entry(A))
    tally.age()
    assert tally.on(B) == 1


def test_what_is_assumed_is_not_settled_until_it_is_shown() -> None:
    tally = counted(Entry(A), Entry(A))
    tally.assume(Reservation(9, Entry(A)))
    tally.assume(Reservation(1, Entry(B)))
    assert (tally.settled_on(A), tally.settled_on(B)) == (1, 0)
    changes = tally.changes

    tally.see(WIDGETS, 9, Entry(A))
    tally.see(WIDGETS, 1, Entry(B))

    assert (tally.settled_on(A), tally.settled_on(B)) == (2, 1)
    assert tally.changes > changes


def test_entries_that_came_and_went_are_dropped() -> None:
    tally = Tally()
    for group in range(2000):
        tally.see(WIDGETS, 1, Entry(A, (group,)))

    for _ in range(LIVES):
        tally.age()

    assert len(tally._shared) == 1
    assert tally.entry(1) == Entry(A, (1999,))


entries = st.builds(
    Entry, st.sampled_from((A, B, C, None)), draining=st.booleans(), deleting=st.booleans()
)
events = st.tuples(
    st.sampled_from(("see", "miss", "assume", "forget", "age")), st.integers(0, 9), entries
)


@given(st.lists(events, max_size=40))
def test_shards_are_found_by_how_many_objects_they_have(
    story: list[tuple[str, int, Entry]],
) -> None:
    tally = Tally()
    for event, identity, entry in story:
        if event in {"see", "miss"}:
            tally.see(WIDGETS, identity, entry if event == "see" else None)
        elif event == "assume":
            tally.assume(Reservation(identity, entry), brief=True)
        elif event == "forget":
            tally.forget(identity)
        else:
            tally.age()

    known = [entry for entry in map(tally.entry, range(10)) if entry is not None]
    on = Counter(entry.shard for entry in known if entry.shard is not None)
    assert tally.by_shard() == on
    assert tally.holding == {
        many: {shard for shard in on if on[shard] == many} for many in on.values()
    }


def test_all_parts_can_be_dropped_at_once() -> None:
    tally = counted(Entry(A, (X,)), Entry(B))
    tally.see(SECRETS, 2, Entry(C, pinned=True))
    tally.assume(Reservation(1, Entry(A)))

    tally.clear()

    assert sums(tally) == sums(Tally())


def test_what_is_assumed_is_not_shown_yet() -> None:
    tally = counted(Entry(A), Entry(None), Entry(B))
    tally.assume(Reservation(0, Entry(B)))
    tally.assume(Reservation(1, Entry(B)))
    tally.assume(Reservation(9, Entry(C)))

    assert tally.shown_on_each() == {A: 1, B: 1, None: 1}
    tally.see(WIDGETS, 0, Entry(B))
    assert tally.shown_on_each() == {B: 2, None: 1}
