"""Facts about `sharder.core.placement.hash_ring`: which shard a key belongs to."""

from typing_extensions import override
from xxhash import xxh64_intdigest

from sharder.core.names import ShardName
from sharder.core.placement.hash_ring import PIECE, TOKENS_PER_MEMBER, HashRing

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


def test_the_hash_is_xxh64_with_seed_0() -> None:
    # The test value of the XXH64 specification for no input, doc/xxhash_spec.md.
    assert xxh64_intdigest(b"") == 0xEF46DB3751D8E999


def test_keys_go_where_the_reference_puts_them() -> None:
    ring = HashRing(ShardName(f"shard-{number}") for number in range(3))

    owners = {key: ring.owner(key) for key in VECTORS}

    assert owners == VECTORS


def test_a_ring_without_members_owns_nothing() -> None:
    assert HashRing([]).owner("/Secret/default/s") is None


def test_a_single_member_owns_everything() -> None:
    ring = HashRing([ONE])

    assert {ring.owner(f"key-{number}") for number in range(100)} == {ONE}


def test_a_key_that_hashes_to_a_token_belongs_to_it() -> None:
    ring = HashRing([ShardName("a"), ShardName("b")])

    owners = {ring.owner(f"a{index}") for index in range(TOKENS_PER_MEMBER)}

    assert owners == {ShardName("a")}


def test_a_key_behind_the_last_token_wraps_to_the_first() -> None:
    names = [ShardName("a"), ShardName("b")]
    tokens = {xxh64_intdigest(f"{n}{i}".encode()): n for n in names for i in range(100)}
    behind = next(k for k in map(str, range(100_000)) if xxh64_intdigest(k.encode()) > max(tokens))

    assert HashRing(names).owner(behind) == tokens[min(tokens)]


def test_a_shared_token_belongs_to_the_last_member_in_order() -> None:
    # `op-1` + `10` and `op-11` + `0` are the same bytes.
    assert HashRing([ELEVEN, ONE]).owner("op-110") == ELEVEN
    assert HashRing([ONE, ELEVEN]).owner("op-110") == ELEVEN


def test_a_shared_token_stays_with_whom_it_has_left_when_members_come_and_go() -> None:
    others = [ShardName(f"shard-{number}") for number in range(9)]

    both = HashRing([*others, ONE]).of([*others, ONE, ELEVEN])

    assert both.owner("op-110") == ELEVEN
    assert both.of([*others, ONE]).owner("op-110") == ONE
    assert both.of([*others, ELEVEN]).owner("op-110") == ELEVEN


def test_every_member_has_100_tokens() -> None:
    # `b-` + `99` is a key that hashes to the last token of `b-`.
    ring = HashRing([ShardName("a"), ShardName("b-")])

    assert [ring.owner("a99"), ring.owner("b-99")] == ["a", "b-"]
    assert TOKENS_PER_MEMBER == 100


def test_members_are_kept_once_and_in_order() -> None:
    assert HashRing([ELEVEN, ONE, ELEVEN]).members == (ONE, ELEVEN)


def test_a_walk_meets_every_member_once() -> None:
    members = [ShardName(f"shard-{number}") for number in range(9)]
    ring = HashRing(members)

    assert all(sorted(ring.walk(key)) == members for key in VECTORS)
    assert list(HashRing([]).walk("key")) == []


def test_a_ring_that_is_built_in_pieces_is_the_one_that_is_built_at_once() -> None:
    members = [*(ShardName(f"shard-{number}") for number in range(2 * PIECE)), ONE, ELEVEN]

    *breaks, last = HashRing.in_pieces(reversed(members))

    whole = HashRing(members)
    assert breaks == [None] * 6  # three to hash the members, three to put their tokens in order
    assert last is not None
    assert last.members == whole.members
    assert [last.owner(key) for key in VECTORS] == [whole.owner(key) for key in VECTORS]
    assert last.of(members[:-1]).owner("op-110") == ONE


def test_a_ring_of_the_same_members_is_the_same() -> None:
    ring = HashRing([ONE, ELEVEN])

    assert ring.of([ELEVEN, ONE]) is ring


class Counted(str):
    """A name that counts how often it was hashed."""

    __slots__ = ("times",)

    def __init__(self, _text: str) -> None:
        self.times = 0

    @override
    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        self.times += 1
        return super().encode(encoding, errors)


def test_for_a_member_more_only_its_own_tokens_are_hashed() -> None:
    names = [Counted(f"shard-{number}") for number in range(50)]
    members = [ShardName(name) for name in names]

    after = HashRing(members).of([*members, ShardName("one-more")])

    assert len(after.members) == 51
    assert {name.times for name in names} == {1}


def test_names_that_share_tokens_are_hashed_once() -> None:
    names = [Counted(ONE), Counted(ELEVEN)]

    ring = HashRing(map(ShardName, names))

    assert ring.owner("op-110") == ELEVEN
    assert {name.times for name in names} == {1}
