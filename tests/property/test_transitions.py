"""However seldom they are told, the transitions of a ring add up to its shards."""

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.leases.membership import Standing
from sharder.core.names import ShardName
from sharder.core.status.phases import Kind, Phases, phases_after, present, transitions
from tests.support.values import members, snapshot

SHARDS = [ShardName(f"shard-{number}") for number in range(6)]

standings = st.dictionaries(st.sampled_from(SHARDS), st.sampled_from(Standing))


@given(st.lists(st.tuples(standings, st.booleans()), max_size=10))
def test_what_was_told_adds_up_to_the_shards_of_the_ring(
    steps: list[tuple[dict[ShardName, Standing], bool]],
) -> None:
    known = set[ShardName]()
    told: Phases = {}
    for standing, is_told in [*steps, ({}, False), ({SHARDS[0]: Standing.AVAILABLE}, True)]:
        now = snapshot(members(standing))
        if not is_told:
            continue
        after = phases_after(told, now)
        for each in transitions(told, after):
            if each.kind is Kind.JOINED:
                assert not known & set(each.shards)
                known |= set(each.shards)
            elif each.kind in {Kind.LOST, Kind.LEFT}:
                assert known >= set(each.shards)
                known -= set(each.shards)
        told = present(after)
        assert known == set(told)
