"""The promises of `core.placement.hash_ring`, against a plain implementation."""

from collections.abc import Iterable

from hypothesis import example, given
from xxhash import xxh64_intdigest

from sharder.core.names import ShardName
from sharder.core.placement.strategies.hashing import HashRing
from tests.property.strategies import keys, ring_members

ONE, ELEVEN, OTHER = (ShardName(name) for name in ("op-1", "op-11", "other"))
SHARED = "op-110"
"""A key that hashes to a token of both."""


def plain_owner(members: Iterable[ShardName], key: str) -> ShardName | None:
    """The owner by the definition: of all tokens, the nearest one clockwise from the key."""
    place = xxh64_intdigest(key.encode())
    distances: dict[ShardName, int] = {
        member: min(
            (xxh64_intdigest(f"{member}{index}".encode()) - place) % 2**64 for index in range(100)
        )
        for member in set(members)
    }
    nearest = min(distances.values(), default=0)
    return max((m for m, distance in distances.items() if distance == nearest), default=None)


@given(ring_members, ring_members, keys)
@example([ELEVEN], [ONE, ELEVEN], SHARED)
@example([ONE, ELEVEN, OTHER], [ONE, OTHER], SHARED)
def test_the_owner_is_the_one_of_the_definition_whatever_ring_was_there_before(
    before: list[ShardName], members: list[ShardName], key: str
) -> None:
    ring, changed = HashRing(members), HashRing(members, HashRing(before))

    assert ring.owner(key) == plain_owner(members, key)
    assert (changed.tokens, changed.owners) == (ring.tokens, ring.owners)
