"""Facts about `sharder.core.placement.strategies.hashing`: which shard a key belongs to."""

from sharder.core.names import ShardName
from sharder.core.placement.strategies.hashing import PIECE, HashRing

# Computed with pkg/sharding/consistenthash of the reference.
VECTORS = {
    "/Secret/default/secret-0": "shard-1",
    "/Secret/default/secret-12": "shard-0",
    "/Secret/default/secret-14": "shard-2",
    "apps/Deployment/team-0/web": "shard-0",
    "apps/Deployment/team-10/web": "shard-2",
    "apps/Deployment/team-23/web": "shard-1",
    "rbac.authorization.k8s.io/ClusterRole//role-0": "shard-0",
    "rbac.authorization.k8s.io/ClusterRole//role-12": "shard-1",
    "rbac.authorization.k8s.io/ClusterRole//role-16": "shard-2",
    "webhosting.timebertt.dev/Website/project-0/homepage-0": "shard-0",
    "webhosting.timebertt.dev/Website/project-0/homepage-21": "shard-1",
    "webhosting.timebertt.dev/Website/project-1/homepage-15": "shard-2",
}
ONE, ELEVEN = ShardName("op-1"), ShardName("op-11")


def test_a_ring_that_is_built_in_pieces_is_the_one_that_is_built_at_once() -> None:
    members = [*(ShardName(f"shard-{number}") for number in range(2 * PIECE)), ONE, ELEVEN]

    *breaks, last = HashRing.in_pieces(reversed(members))

    whole = HashRing(members)
    assert breaks == [None] * 6  # three to hash the members, three to put their tokens in order
    assert last is not None
    assert last.members == whole.members
    assert [last.owner(key) for key in VECTORS] == [whole.owner(key) for key in VECTORS]
    assert (last.owner("op-110"), HashRing([ONE, *members[:-1]]).owner("op-110")) == (ELEVEN, ONE)


def test_a_ring_without_members_owns_nothing() -> None:
    assert HashRing([]).owner("/Secret/default/s") is None


def test_a_walk_meets_every_member_once() -> None:
    members = [ShardName(f"shard-{number}") for number in range(9)]
    ring = HashRing(members)

    assert all(sorted(ring.walk(key)) == members for key in VECTORS)
    assert list(HashRing([]).walk("key")) == []
