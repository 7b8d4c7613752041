"""Consistent hashing: key → shard, bit-compatible with the reference.

Source: Karger et al., "Consistent Hashing and Random Trees" (STOC 1997), with the constants of
timebertt/kubernetes-controller-sharding, pkg/sharding/consistenthash; facts in
tests/compat/ring.json.

Rendezvous hashing: every key ranks the shards, each shard gets its part of first places.

Source: Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998); weights
by Schindelhauer and Schomaker, "Weighted Distributed Hash Tables" (2005).  gNMIc hashes the shard
last with FNV-1a, which mixes too little: one of five pods is the first choice of half of all keys.

Weighted choice among shards in a row: the further back, the likelier.

Source: OpenShift v2 (openshift/origin-server, select_best_fit_node_impl); the number that it rolls
comes from the object's key here, so that everybody who asks gets the same answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from math import log
from typing import Final, Protocol, TypeAlias

from xxhash import xxh3_64_intdigest, xxh64_intdigest

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.demand import Demand

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


_SEPARATOR = b"\0"
"""Stands in neither names nor keys, so that no two pairs are hashed alike."""


class Ranking(Protocol):
    """How much a key is drawn to a shard."""

    def score(self, key: str, shard: Shard) -> float:
        """Return the score: the highest wins.  A pure function of both."""
        ...


@dataclass(frozen=True, slots=True)
class WeightedRendezvous:
    """The product's own ranking."""

    def score(self, key: str, shard: Shard) -> float:
        """Return -weight / ln(u), where u in (0, 1) is a hash of both."""
        digest = xxh3_64_intdigest(shard.name.encode() + _SEPARATOR + key.encode())
        return -shard.weight / log(unit(digest))


def unit(digest: int) -> float:
    """Return a number in (0, 1) for a hash of 64 bits."""
    # With the half, which keeps it off 0 and 1, 52 bits are what a float holds exactly.
    return ((digest >> 12) + 0.5) / 2**52


def best(ranking: Ranking, key: str, shards: Sequence[Shard]) -> Shard:
    """Return the shard with the highest score; of equals the first of `shards`."""
    return max(shards, key=lambda shard: ranking.score(key, shard))


Draw: TypeAlias = Callable[[Demand, int], int]
"""(object, total) → a number from 0 to below `total`, which is at least 1."""

_SEED: Final = 0x67656172
"""Keeps what is drawn independent of the rankings, which hash the key without one ("gear")."""


def draw_by_hash(demand: Demand, total: int) -> int:
    """Return a number that the object's key alone decides, each equally likely."""
    return xxh3_64_intdigest(demand.key.encode(), seed=_SEED) * total >> 64


def weights(many: int) -> range:
    """Return the weights of so many in a row.

    The first has half their number, rounded up, and each one more than the one before it; so the
    last is chosen up to three times as often as the first.
    """
    first = (many + 1) // 2
    return range(first, first + many)


def place_at(position: int, many: int) -> int:
    """Return whose place in a row of `many` a number below the sum of the weights falls in."""
    return bisect_right(list(accumulate(weights(many))), position)
