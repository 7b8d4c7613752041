"""The strategies that hash the key of an object: ConsistentHash, Rendezvous and BoundedLoad.

ConsistentHash chooses the first shard that can have the object on a ring which is bit-compatible
with the reference's.  Rendezvous chooses the shard with the highest score for the key: in contrast
to consistent hashing, the shares of the shards match their weights exactly, and if a shard joins
or leaves, only its own objects move.  BoundedLoad is rendezvous hashing under ceilings.

Sources: Karger et al., "Consistent Hashing and Random Trees" (STOC 1997), with the constants of
timebertt/kubernetes-controller-sharding, pkg/sharding/consistenthash; facts in
tests/compat/ring.json.  BoundedLoad from the gNMIc operator (gnmic/operator, placement_blrh.go),
after Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads" (2016), with a
ranking that mixes well.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from math import ceil
from typing import ClassVar, Final, TypeAlias

from typing_extensions import override
from xxhash import xxh64_intdigest

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategy import Choice, Layout, Strategy

TOKENS_PER_MEMBER = 100
"""The number of tokens of one shard on the ring, as in the reference."""

_INDICES: Final = tuple(str(index).encode() for index in range(TOKENS_PER_MEMBER))

_Tokens: TypeAlias = "array[int]"
"""Tokens in order.  An array is faster to copy and to free than a list of 100,000 numbers."""


class HashRing:
    """An immutable ring: 64-bit tokens in order, each with its shard."""

    __slots__ = ("members", "owners", "tokens")

    def __init__(self, members: Iterable[ShardName], known: "HashRing | None" = None) -> None:
        """Build the ring of `members`; their order and repetitions do not matter.

        Members of the `known` ring keep their tokens: to hash a thousand takes some 100 ms.

        Name and index are hashed without a separator, so `op-1` and `op-11` share tokens.  In the
        reference, the owner of such a token depends on the order of its list.  Here it is the last
        member in byte order.
        """
        self.members = tuple(sorted(set(members)))
        self.tokens: _Tokens = array("Q")
        self.owners: list[ShardName] = []
        """The shard of each token."""
        if known is not None:
            stays = [*map(set(self.members).__contains__, known.owners)]
            self.tokens.extend(compress(known.tokens, stays))
            self.owners.extend(compress(known.owners, stays))
        added, complete = dict[int, ShardName](), Counter(self.owners)
        for member in self.members:
            # One that shared a token with a shard that left gets it back.
            if complete[member] < TOKENS_PER_MEMBER:
                name = member.encode()
                added |= {xxh64_intdigest(name + index): member for index in _INDICES}
        self._add(added)

    def _add(self, added: Mapping[int, ShardName]) -> None:
        """Merge tokens into those in order; of two shards of one token, the last one gets it."""
        tokens, owners, begin = self.tokens, self.owners, 0
        self.tokens, self.owners = array("Q"), []
        for token in sorted(added):
            end = bisect_left(tokens, token, begin)
            self.tokens.extend(tokens[begin:end])
            self.owners.extend(owners[begin:end])
            is_shared = end < len(tokens) and tokens[end] == token
            self.tokens.append(token)
            self.owners.append(max(added[token], owners[end]) if is_shared else added[token])
            begin = end + is_shared
        self.tokens.extend(tokens[begin:])
        self.owners.extend(owners[begin:])

    def of(self, members: tuple[ShardName, ...]) -> "HashRing":
        """Return the ring of `members`, which are in order: this one if it has the same."""
        return self if self.members == members else HashRing(members, self)

    def owner(self, key: str) -> ShardName | None:
        """Return the shard with the first token at or after the key's hash, wrapping around.

        The result is None if the ring has no members.
        """
        if not self.tokens:
            return None
        index = bisect_left(self.tokens, xxh64_intdigest(key.encode()))
        return self.owners[index if index < len(self.tokens) else 0]

    def walk(self, key: str) -> Iterator[ShardName]:
        """Yield every shard once, in the order of their tokens from the key's hash on."""
        start = bisect_left(self.tokens, xxh64_intdigest(key.encode()))
        seen = set[ShardName]()
        for owner in chain(islice(self.owners, start, None), islice(self.owners, start)):
            if owner not in seen:
                seen.add(owner)
                yield owner


class ConsistentHash(Strategy):
    """Consistent hashing over the available shards; follows."""

    __slots__ = ("ring",)
    sticks: ClassVar[bool] = False

    def __init__(self, layout: Layout, known: HashRing | None = None) -> None:
        """Use a known ring if it has the same shards, or build one."""
        super().__init__(layout)
        names = tuple(shard.name for shard in layout.available)
        self.ring: HashRing = (known or HashRing(())).of(names)

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the first candidate on the ring from the key's hash on."""
        if len(candidates) == len(self.ring.members):
            return Choice(self.ring.owner(demand.key))
        names = {shard.name for shard in candidates}
        return Choice(next(shard for shard in self.ring.walk(demand.key) if shard in names))

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the order of the shards on the ring from the key's hash on."""
        order = islice(self.ring.walk(demand.key), len(self.ring.members))
        places = {shard: place for place, shard in enumerate(order, start=1)}
        return {s.name: f"place {places[s.name]} clockwise from the key" for s in candidates}


class Rendezvous(Strategy):
    """Weighted rendezvous hashing; follows."""

    __slots__ = ()
    sticks: ClassVar[bool] = False

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the candidate with the highest score."""
        return Choice(self.layout.highest(demand.key, candidates).name)

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the scores."""
        score = self.layout.ranking.score
        return {s.name: f"score {score(demand.key, s):.4g}" for s in candidates}


_ROUNDING = 1e-9
"""Tolerance for weights, which are floats: an integer share must not be rounded up by one."""


class BoundedLoad(Rendezvous):
    """Rendezvous hashing; ceilings, which are hard filters, limit the shards."""

    __slots__ = ()
    sticks: ClassVar[bool] = True

    @override
    def share(self, weight: float, objects: int) -> int | None:
        """Return ⌈objects · weight / Σ weights⌉, None if the ring declares a ceiling."""
        if self.layout.spec.per_shard_capacity is not None:
            return None
        return ceil(objects * weight / self.layout.weight - _ROUNDING)
