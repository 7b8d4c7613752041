"""Whatever happens to the shards of a ring, its transitions are complete, and few."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.names import ShardName
from sharder.core.status.phases import ShardPhase
from sharder.core.status.transition_messages import NAMED, Kind, Transition, merge, sentence
from sharder.core.status.transitions import RingView, transitions

SHARDS = [ShardName(f"shard-{number}") for number in range(12)]
MAX_MESSAGE = 1024
"""Of an Event."""

some = st.frozensets(st.sampled_from(SHARDS))


@st.composite
def views(draw: st.DrawFn) -> RingView:
    phases = draw(st.dictionaries(st.sampled_from(SHARDS), st.sampled_from(ShardPhase)))
    shards = {shard for shard, phase in phases.items() if phase.owns}
    evacuating = draw(some) & shards
    return RingView(
        phases=phases,
        cordoned=(draw(some) & shards) - evacuating,
        evacuating=evacuating,
        paused=draw(st.booleans()),
    )


@given(st.lists(views(), min_size=2, max_size=8))
def test_merged_sentences_count_every_shard_that_came_and_went(ring: list[RingView]) -> None:
    expected, pending = Counter[Kind](), dict[Kind, Transition]()
    for before, after in pairwise(ring):
        gone = before.ended_in(after).values()
        expected[Kind.JOINED] += len(after.shards - before.shards)
        expected[Kind.LOST] += sum(phase is ShardPhase.LOST for phase in gone)
        expected[Kind.LEFT] += sum(phase is ShardPhase.LEFT for phase in gone)
        for each in transitions(before, after, {}):
            known = pending.get(each.kind)
            pending[each.kind] = each if known is None else merge(known, each)

    for kind in (Kind.JOINED, Kind.LOST, Kind.LEFT):
        told = pending.get(kind)
        assert (0 if told is None else told.numbers["shards"]) == expected[kind]
    for told in pending.values():
        assert len(told.shards) <= NAMED
        assert len(sentence(told)) <= MAX_MESSAGE


@given(views(), views())
def test_no_shard_both_joins_and_ends(before: RingView, after: RingView) -> None:
    found = {t.kind: t for t in transitions(before, after, {})}

    ended = [found[kind].numbers["shards"] for kind in (Kind.LOST, Kind.LEFT) if kind in found]
    assert sum(ended) == len(before.shards - after.shards)
    if before == after:
        assert not found


@given(st.integers(1, 10**6))
def test_a_sentence_about_any_number_of_shards_fits_into_an_event(more: int) -> None:
    longest = [ShardName("s" * 61 + f"{n:02}") for n in range(NAMED)]
    told = Transition(kind=Kind.LOST, shards=dict.fromkeys(longest, 1), more=more, objects=more)

    assert len(sentence(told)) <= MAX_MESSAGE
