"""The shards and objects of a ring as a single read shows them, for people.

The service takes objects from a shard only after it has watched the shard's Lease.  A single read
trusts the Leases instead: a shard that holds its Lease works, and one without a Lease does not.

Nor does a single read show since when an object is in its state.  The API server notes for each
client when it last changed an object, and which fields it set.  So a label is there at least since
the last write of the client that set it.  A label that was removed leaves no trace: an object
without an owner waits at most since it was created.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import LabelSelector, ObjectMeta, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.register import Membership
from sharder.core.leases.ring_leases import UNKNOWN_SILENCE
from sharder.core.names import EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import FALSE, READY, condition_of
from sharder.core.status.phases import ShardPhase, phase_of
from sharder.core.texts import counted


def members_of(ring: ControllerRing, leases: Iterable[Lease]) -> Members:
    """Return the standings of the ring's shards; a shard without a Lease is gone."""
    membership = Membership(started=-UNKNOWN_SILENCE)
    membership.replace(leases, at=0)
    return membership.members(ring.name, at=0, namespaces=ring.spec.shard_namespaces)


def selected_namespaces(
    ring: ControllerRing, namespaces: Iterable[PartialObject]
) -> frozenset[str]:
    """Return which of `namespaces` the ring selects, without those of the system.

    The namespace of the service is not known here, so the default namespace is assumed.
    """
    selector = ring.spec.namespace_selector or LabelSelector()
    selected = (n.metadata.name for n in namespaces if selector.matches(n.metadata.labels or {}))
    return frozenset(selected) - {EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE}


def not_ready(ring: ControllerRing) -> str | None:
    """Return why the ring is not ready, by its condition Ready; None if that is not False."""
    ready = condition_of(ring.status, READY)
    return ready.message or ready.reason if ready and ready.status == FALSE else None


def state_in(members: Members, lease: Lease, now: datetime) -> ShardPhase:
    """Return the state of a shard of the ring at `now` (aware), by its Lease."""
    validity = members.validity
    if lease.metadata.name in validity.duplicate_names:
        return ShardPhase.MISSING
    return phase_of(lease, now, validity.problems.get(lease.metadata.ref))


def states_of(
    members: Members, leases: Iterable[Lease], now: datetime
) -> dict[ShardName, ShardPhase]:
    """Return the state of every shard of the ring at `now` (aware), by its Leases.

    If two namespaces have a Lease of the same name, the healthier one counts.
    """
    states: dict[ShardName, ShardPhase] = {}
    order = tuple(ShardPhase).index
    for lease in leases:
        shard, state = ShardName(lease.metadata.name), state_in(members, lease, now)
        states[shard] = min(state, states.get(shard, state), key=order)
    return states


@dataclass(slots=True)
class Number:
    """How many objects; main objects and controlled ones are never added up."""

    objects: int = 0
    """Main objects."""
    children: int = 0

    def add(self, role: Role, many: int = 1) -> None:
        """Count objects."""
        if role is Role.CONTROLLED:
            self.children += many
        else:
            self.objects += many

    def __bool__(self) -> bool:
        return bool(self.objects or self.children)

    @override
    def __str__(self) -> str:
        return beside(self.objects, self.children)

    @property
    def words(self) -> str:
        """The number in a sentence, such as `2 objects +4`."""
        return beside(counted(self.objects, "object"), self.children)


def beside(objects: object, children: int | None) -> str:
    """Return a number of main objects with that of children beside it, such as `2 +4`."""
    return f"{objects} +{children}" if children else str(objects)


TOTALS: Final = ("objects", "children", "unassigned", "unowned", "unowned_children", "draining")
"""The counts of a ring by their names in reports; `unassigned` are main objects without an owner
label, and `unowned` those without an available owner."""


class RingTotals:
    """The counts of one ring's objects, which are added one by one."""

    def __init__(self, snapshot: RingSnapshot) -> None:
        self._snapshot = snapshot
        self.totals = dict.fromkeys(TOTALS, 0)
        self.by_shard: defaultdict[ShardName, Number] = defaultdict(Number)
        self.draining: Counter[ShardName] = Counter()

    def count(self, obj: PartialObject, role: Role) -> None:
        """Count an object in scope, unless it is controlled and has no controller."""
        if self._snapshot.key_of(obj, role) is None:
            return
        owner, is_child = self._snapshot.owner_of(obj), role is Role.CONTROLLED
        self.totals["children" if is_child else "objects"] += 1
        if is_unowned(self._snapshot, owner):
            self.totals["unowned_children" if is_child else "unowned"] += 1
        if owner is None:
            self.totals["unassigned"] += not is_child
            return
        self.by_shard[owner].add(role)
        self.draining[owner] += self._snapshot.is_draining(obj)
        self.totals["draining"] += self._snapshot.is_draining(obj)


def is_unowned(snapshot: RingSnapshot, owner: ShardName | None) -> bool:
    """Return whether no shard works on an object with this owner."""
    return owner is None or snapshot.members.standing_of(owner) is Standing.GONE


_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


class _Metadata(msgspec.Struct, frozen=True):
    labels: dict[str, object] = msgspec.field(default_factory=dict, name="f:labels")


class _Set(msgspec.Struct, frozen=True):
    metadata: _Metadata = msgspec.field(default=_Metadata(), name="f:metadata")


class _Fields(msgspec.Struct, frozen=True):
    manager: str = ""
    time: str | None = None
    fields: _Set = msgspec.field(default=_Set(), name="fieldsV1")


class DatedMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    """Metadata with the writes of each client."""

    managed_fields: tuple[_Fields, ...] = ()


class DatedObject(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """An object with the writes of each client."""

    metadata: DatedMeta = DatedMeta()


class Bound(StrEnum):
    """What a time says of the age of a state."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


class Since(NamedTuple):
    """When a state began, at the latest or at the earliest."""

    time: str
    bound: Bound


def labelled(obj: DatedObject, label: str, but: Sequence[str] = ()) -> Since | None:
    """Return since when the object has the label; None if that is unknown.

    Writes of the clients `but` do not count.
    """
    times = [
        each.time
        for each in obj.metadata.managed_fields
        if each.time and each.manager not in but and f"f:{label}" in each.fields.metadata.labels
    ]
    return Since(min(times), Bound.AT_LEAST) if times else None


def created(obj: PartialObject) -> Since | None:
    """Return since when the object can be in any state."""
    time = obj.metadata.creation_timestamp
    return Since(time, Bound.AT_MOST) if time else None


def age(since: str | None, bound: Bound | None, now: datetime) -> str | None:
    """Return the age in a table: `13s` for at least that, `<13s` for at most that."""
    begin = parse_time(since)
    if begin is None:
        return None
    return ("<" if bound is Bound.AT_MOST else "") + short((now - begin).total_seconds())


def short(seconds: float) -> str:
    """Return a duration in its two largest units, such as `2m5s`, as kubectl shows ages."""
    whole = max(0, int(seconds))
    for (large, size), (small, part) in pairwise(_UNITS):
        if whole >= size:
            number, rest = divmod(whole, size)
            return f"{number}{large}{rest // part}{small}" if rest >= part else f"{number}{large}"
    return f"{whole}s"
