"""Which Leases of a ring make shards, and what is wrong with the others.

Every client that can create Leases can label one with a ring's name.  So a Lease counts only if it
is valid, and in one of the namespaces that the ring lists, if it lists any (docs/protocol.md,
"When an object may be taken from a shard").
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from sharder.core.api.lease import Lease
from sharder.core.leases.state import (
    MAX_DURATION_SECONDS,
    MIN_DURATION_SECONDS,
    is_complete,
    is_held,
)
from sharder.core.names import SHARDER_IDENTITY, ObjectRef, ShardName, is_label_value

MAX_LEASES = 1024
"""Maximum shards of one ring, the oldest ones; this bounds the cost of forged Leases."""

_SURPLUS = f"the ring already has {MAX_LEASES} older shards"


def problem_of(lease: Lease) -> str | None:
    """Return why the Lease makes no shard, None if it makes one.

    The name must be a label value, because it becomes the owner label of objects: otherwise the
    API server would reject the objects.
    """
    if not is_label_value(lease.metadata.name):
        return "its name is not a valid label value (at most 63 characters of A-Z a-z 0-9 - _ .)"
    if lease.metadata.name == SHARDER_IDENTITY:
        return "its name is reserved for the sharder"
    if not is_complete(lease):
        return "acquireTime, renewTime or leaseDurationSeconds is missing or unreadable"
    seconds = lease.spec.lease_duration_seconds or 0
    if lease.spec.holder_identity == SHARDER_IDENTITY:
        return None  # A Lease that we took over lasts twice as long as the shard's did.
    if not MIN_DURATION_SECONDS <= seconds <= MAX_DURATION_SECONDS:
        return f"leaseDurationSeconds must be {MIN_DURATION_SECONDS} to {MAX_DURATION_SECONDS}"
    return None


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

    @property
    def complaint(self) -> str | None:
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
    elsewhere = f"the ring's spec.shardNamespaces allows only {', '.join(sorted(namespaces))}"
    own, problems, shards = list[Lease](), dict[ObjectRef, str](), 0
    for lease in sorted(leases, key=by_age):
        if namespaces and lease.metadata.namespace not in namespaces:
            problems[lease.metadata.ref] = elsewhere
            continue
        own.append(lease)
        found = problem_of(lease)
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
