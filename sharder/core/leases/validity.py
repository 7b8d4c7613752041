"""Which Leases of a ring make shards, and what is wrong with the others.

Every client that can create Leases can label one with a ring's name.  So a Lease is validated
before it counts, and only in the namespaces that the ring lists, if it lists any
(docs/protocol.md, "When an object may be taken from a shard").
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from sharder.core.api.lease import Lease
from sharder.core.leases.state import is_held, problem_of
from sharder.core.names import ObjectRef, ShardName

MAX_LEASES = 1024
"""Shards of one ring, the oldest ones: bounds the cost of forged Leases."""

_SURPLUS = f"the ring already has {MAX_LEASES} older shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseValidity:
    """The Leases of one ring, sorted into those that count and those that do not."""

    leases: tuple[Lease, ...]
    """Those in the ring's namespaces, oldest first, valid or not."""
    foreign: tuple[Lease, ...]
    """Those in other namespaces."""
    problems: dict[ObjectRef, str] = field(compare=False)
    """Why a Lease makes no shard, for each that makes none."""
    duplicate_names: frozenset[ShardName]
    """Names held in more than one namespace: it is not known which shard an object belongs to."""

    @property
    def valid(self) -> tuple[Lease, ...]:
        """The Leases that make shards, dead ones included, oldest first."""
        return tuple(lease for lease in self.leases if lease.metadata.ref not in self.problems)

    @property
    def complaint(self) -> str | None:
        """Why the ring is not ready and what to do about it, None if it is."""
        if not self.duplicate_names:
            return None
        names = ", ".join(sorted(self.duplicate_names))
        return (
            f"shards in two namespaces have the same name: {names}; their objects do not move: "
            "stop one of the two, or set spec.shardNamespaces"
        )


def classify(
    leases: Iterable[Lease],
    namespaces: Collection[str],
    problem: Callable[[Lease], str | None] = problem_of,
) -> LeaseValidity:
    """Return which Leases of a ring are valid; without `namespaces` all namespaces count.

    `problem` is `problem_of`, or a cache of its results.
    """
    own, foreign = list[Lease](), list[Lease]()
    for lease in leases:
        local = not namespaces or lease.metadata.namespace in namespaces
        (own if local else foreign).append(lease)
    own.sort(key=lambda lease: (lease.metadata.creation_timestamp or "", lease.metadata.ref))
    problems = _problems(own, problem)
    elsewhere = f"the ring's spec.shardNamespaces allows only {', '.join(sorted(namespaces))}"
    problems |= {lease.metadata.ref: elsewhere for lease in foreign}
    held = Counter(lease.metadata.name for lease in own if is_held(lease))
    return LeaseValidity(
        leases=tuple(own),
        foreign=tuple(foreign),
        problems=problems,
        duplicate_names=frozenset(ShardName(name) for name in held if held[name] > 1),
    )


def _problems(
    oldest_first: Iterable[Lease], problem: Callable[[Lease], str | None]
) -> dict[ObjectRef, str]:
    """Return what is wrong with each Lease; only held, valid ones count towards the limit."""
    problems, shards = dict[ObjectRef, str](), 0
    for lease in oldest_first:
        found = problem(lease)
        if found is None and is_held(lease):
            shards += 1
            found = _SURPLUS if shards > MAX_LEASES else None
        if found is not None:
            problems[lease.metadata.ref] = found
    return problems
