"""Facts about `sharder.core.placement.strategies.hashing`: which shard a key belongs to."""

from sharder.core.names import ShardName
from sharder.core.placement.strategies.hashing import HashRing

KEYS = [f"/Secret/default/secret-{number}" for number in range(12)]


def test_a_walk_meets_every_member_once() -> None:
    members = [ShardName(f"shard-{number}") for number in range(9)]
    ring = HashRing(members)

    assert all(sorted(ring.walk(key)) == members for key in KEYS)
    assert (HashRing([]).owner("key"), list(HashRing([]).walk("key"))) == (None, [])
