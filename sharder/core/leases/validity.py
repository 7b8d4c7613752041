"""Which Leases of a ring make shards, and whether two shards have one name.

Every client that can create Leases can label one with a ring's name.  So a Lease counts only if it
is valid, and in one of the namespaces that the ring lists, if it lists any (docs/protocol.md,
"Shards and their Leases", "When an object may be taken from a shard").
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from sharder.core.api.lease import Lease
from sharder.core.leases.state import is_held, problem_of
from sharder.core.names import ObjectRef, ShardName

MAX_LEASES = 1024
"""Maximum shards of one ring, the oldest ones; this bounds the cost of forged Leases."""

_SURPLUS = f"the ring already has {MAX_LEASES} older shards"


@dataclass(frozen=True, kw_only=True)
class LeaseValidity:
    """The Leases of one ring, sorted into those that count and those that do not."""

    leases: tuple[Lease, ...]
    """The Leases in the ring's namespaces, oldest first, valid or not."""
    problems: dict[ObjectRef, str]
    """Why a Lease makes no shard, for each Lease that makes none."""
    duplicate_names: frozenset[ShardName]
    """Names of held Leases in more than one namespace: an owner label could mean either shard."""

    @cached_property
    def valid(self) -> tuple[Lease, ...]:
        """The Leases that make shards, dead ones included, oldest first."""
        return tuple(lease for lease in self.leases if lease.metadata.ref not in self.problems)

    @cached_property
    def named(self) -> dict[str, list[ObjectRef]]:
        """All `leases` of each name: a shard that has none of them works no longer."""
        named = dict[str, list[ObjectRef]]()
        for lease in self.leases:
            named.setdefault(lease.metadata.name, []).append(lease.metadata.ref)
        return named

    @property
    def name_conflict(self) -> str | None:
        """Why two shards of one name keep the ring from being ready, and what to do; or None."""
        if not self.duplicate_names:
            return None
        names = ", ".join(sorted(self.duplicate_names))
        return (
            f"shards in two namespaces have the same name: {names}; their objects do not move: "
            "stop one of the two, or set spec.shardNamespaces"
        )


def classify(leases: Iterable[Lease], namespaces: Collection[str]) -> LeaseValidity:
    """Return which Leases of a ring are valid; without `namespaces` all namespaces count.

    Only held Leases without a problem of their own count towards `MAX_LEASES`.
    """
    own, problems, shards = list[Lease](), dict[ObjectRef, str](), 0
    for lease in sorted(leases, key=by_age):
        found = problem_of(lease, namespaces)
        if not namespaces or lease.metadata.namespace in namespaces:
            own.append(lease)
        if found is None and is_held(lease):
            shards += 1
            found = _SURPLUS if shards > MAX_LEASES else None
        if found is not None:
            problems[lease.metadata.ref] = found
    held = Counter(lease.metadata.name for lease in own if is_held(lease))
    return LeaseValidity(
        leases=tuple(own),
        problems=problems,
        duplicate_names=frozenset(ShardName(name) for name in held if held[name] > 1),
    )


def by_age(lease: Lease) -> tuple[str, ObjectRef]:
    """Return the key that sorts the oldest Lease first."""
    return lease.metadata.creation_timestamp or "", lease.metadata.ref
