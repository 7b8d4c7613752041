"""Facts about `sharder.core.placement.strategies.hashing`: which shard a key belongs to."""

from sharder.core.names import ShardName
from sharder.core.placement.strategies.hashing import PIECE, HashRing

KEYS = [f"/Secret/default/secret-{number}" for number in range(12)]
ONE, ELEVEN = ShardName("op-1"), ShardName("op-11")


def test_a_ring_that_is_built_in_pieces_is_the_one_that_is_built_at_once() -> None:
    members = [*(ShardName(f"shard-{number}") for number in range(2 * PIECE)), ONE, ELEVEN]

    *breaks, last = HashRing.in_pieces(reversed(members))

    whole = HashRing(members)
    assert breaks == [None] * 6  # three to hash the members, three to put their tokens in order
    assert last is not None
    assert last.members == whole.members
    assert [last.owner(key) for key in KEYS] == [whole.owner(key) for key in KEYS]
    assert (last.owner("op-110"), HashRing([ONE, *members[:-1]]).owner("op-110")) == (ELEVEN, ONE)


def test_a_walk_meets_every_member_once() -> None:
    members = [ShardName(f"shard-{number}") for number in range(9)]
    ring = HashRing(members)

    assert all(sorted(ring.walk(key)) == members for key in KEYS)
    assert (HashRing([]).owner("key"), list(HashRing([]).walk("key"))) == (None, [])
