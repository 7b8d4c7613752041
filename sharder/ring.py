"""Consistent hashing: key → shard, bit-compatible with the reference.

Source: Karger et al., "Consistent Hashing and Random Trees" (STOC 1997), with the constants of
timebertt/kubernetes-controller-sharding, pkg/sharding/consistenthash; facts in
tests/compat/ring.json.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from xxhash import xxh64_intdigest

from sharder.names import ShardName

TOKENS_PER_MEMBER = 100
"""Points of one shard on the ring, as in the reference."""


class ConsistentHash:
    """An immutable ring: 64-bit tokens in order, each with the shard it belongs to."""

    __slots__ = ("_owners", "_tokens", "members")

    def __init__(self, members: Iterable[ShardName]) -> None:
        """Build the ring of `members`, in whatever order and however often they come.

        Name and index are hashed without a separator, so that `op-1` and `op-11` share tokens.
        The reference's answer then depends on the order of its list; here the last member in
        byte order wins.
        """
        self.members = tuple(sorted(set(members)))
        by_token = {
            xxh64_intdigest(f"{member}{index}".encode()): member
            for member in self.members
            for index in range(TOKENS_PER_MEMBER)
        }
        self._tokens = sorted(by_token)
        self._owners = [by_token[token] for token in self._tokens]

    def owner(self, key: str) -> ShardName | None:
        """Return the shard whose token comes first at or after the key's hash, wrapping round.

        None if the ring has no members.
        """
        if not self._tokens:
            return None
        index = bisect_left(self._tokens, xxh64_intdigest(key.encode()))
        return self._owners[index if index < len(self._tokens) else 0]

    def walk(self, key: str) -> Iterator[ShardName]:
        """Yield every shard once, in the order in which they come clockwise of the key's hash."""
        start = bisect_left(self._tokens, xxh64_intdigest(key.encode()))
        seen = set[ShardName]()
        for owner in chain(islice(self._owners, start, None), islice(self._owners, start)):
            if owner not in seen:
                seen.add(owner)
                yield owner
