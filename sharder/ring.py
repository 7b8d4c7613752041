"""Consistent hashing: key → shard, bit-compatible with the reference.

Source: Karger et al., "Consistent Hashing and Random Trees" (STOC 1997), with the constants of
timebertt/kubernetes-controller-sharding, pkg/sharding/consistenthash; facts in
tests/compat/ring.json.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from xxhash import xxh64_intdigest

from sharder.names import ShardName

TOKENS_PER_MEMBER = 100
"""Points of one shard on the ring, as in the reference."""


class ConsistentHash:
    """An immutable ring: 64-bit tokens in order, each with the shard it belongs to."""

    __slots__ = ("_contested", "_owners", "_tokens", "members")

    def __init__(self, members: Iterable[ShardName]) -> None:
        """Build the ring of `members`, in whatever order and however often they come.

        Name and index are hashed without a separator, so that `op-1` and `op-11` share tokens.
        The reference's answer then depends on the order of its list; here the last member in
        byte order wins.
        """
        self.members = tuple(sorted(set(members)))
        by_token: dict[int, ShardName] = {}
        self._contested: dict[int, tuple[ShardName, ...]] = {}
        """All members of a token that has several."""
        for member in self.members:
            for token in _tokens_of(member):
                if token in by_token:
                    others = self._contested.get(token, (by_token[token],))
                    self._contested[token] = (*others, member)
                by_token[token] = member
        self._tokens = sorted(by_token)
        self._owners = [by_token[token] for token in self._tokens]

    def of(self, members: Iterable[ShardName]) -> "ConsistentHash":
        """Return the ring of `members`, the same as if it were built from nothing.

        Where few come and go, only their tokens are hashed and put in their places: building a
        ring of a thousand members takes some 100 ms, one more on it less than 1 ms.
        """
        wanted = set(members)
        changed = wanted.symmetric_difference(self.members)
        if len(changed) > len(self.members) // 4:
            return ConsistentHash(wanted)
        claims: dict[int, set[ShardName]] = {}
        for member in changed:
            for token in _tokens_of(member):
                claims.setdefault(token, self._claims(token)).add(member)
        after = ConsistentHash(())
        after.members = tuple(sorted(wanted))
        after._contested = dict(self._contested)
        for token, claimed in claims.items():
            claimed.intersection_update(wanted)
            after._contested.pop(token, None)
            if len(claimed) > 1:
                after._contested[token] = tuple(claimed)
        after._tokens, after._owners = self._spliced(claims)
        return after

    def _claims(self, token: int) -> set[ShardName]:
        """Return the members of a token."""
        if token in self._contested:
            return set(self._contested[token])
        at = bisect_left(self._tokens, token)
        is_there = at < len(self._tokens) and self._tokens[at] == token
        return {self._owners[at]} if is_there else set()

    def _spliced(self, claims: Mapping[int, set[ShardName]]) -> tuple[list[int], list[ShardName]]:
        """Return all tokens and owners, with these members of some tokens."""
        tokens, owners = list[int](), list[ShardName]()
        done = 0
        for token in sorted(claims):
            at = bisect_left(self._tokens, token, done)
            tokens += self._tokens[done:at]
            owners += self._owners[done:at]
            done = at + (at < len(self._tokens) and self._tokens[at] == token)
            if claims[token]:
                tokens.append(token)
                owners.append(max(claims[token]))
        return tokens + self._tokens[done:], owners + self._owners[done:]

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


def _tokens_of(member: ShardName) -> Iterator[int]:
    return (xxh64_intdigest(f"{member}{index}".encode()) for index in range(TOKENS_PER_MEMBER))
