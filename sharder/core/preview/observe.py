"""The shards and objects of a ring as a single read shows them, for people.

The service takes objects from a shard only after it has watched the shard's Lease.  A single read
trusts the Leases instead: a shard that holds its Lease works, and one without a Lease does not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import LabelSelector
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.register import Membership
from sharder.core.leases.ring_leases import UNKNOWN_SILENCE
from sharder.core.names import EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE, ShardName
from sharder.core.plurals import counted
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.phases import ShardPhase, phase_of


def members_of(ring: ControllerRing, leases: Iterable[Lease]) -> Members:
    """Return the standings of the ring's shards; a shard without a Lease is gone."""
    membership = Membership(started=-UNKNOWN_SILENCE)
    membership.replace(leases, at=0)
    return membership.members(ring.name, at=0, namespaces=ring.spec.shard_namespaces)


def selected_namespaces(
    ring: ControllerRing, namespaces: Iterable[PartialObject], default: LabelSelector
) -> frozenset[str]:
    """Return which of `namespaces` the ring selects; `default` is for a ring without a selector.

    The namespace of the service is not known here, so the default namespace is assumed.
    """
    selector = ring.spec.namespace_selector or default
    selected = (n.metadata.name for n in namespaces if selector.matches(n.metadata.labels or {}))
    return frozenset(selected) - {EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE}


def not_ready(ring: ControllerRing) -> str | None:
    """Return why the ring is not ready, by its condition Ready; None if that is not False."""
    ready = next((it for it in ring.status.conditions if it.type == "Ready"), None)
    if ready is None or ready.status != "False":
        return None
    return ready.message or ready.reason


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


class ObjectCount:
    """The counts of one ring's objects, which are added one by one."""

    def __init__(self, snapshot: RingSnapshot) -> None:
        self._snapshot = snapshot
        self.all = Number()
        self.unassigned = Number()
        """Objects without an owner label."""
        self.unowned = Number()
        """Objects without an available owner: unassigned, or of a shard that is gone."""
        self.by_shard: defaultdict[ShardName, Number] = defaultdict(Number)
        self.draining: Counter[ShardName] = Counter()

    def count(self, obj: PartialObject, role: Role) -> bool:
        """Count an object; False if it is out of scope or controlled without a controller."""
        if not self._snapshot.selects(obj, role) or self._snapshot.key_of(obj, role) is None:
            return False
        owner = self._snapshot.owner_of(obj)
        self.all.add(role)
        if is_unowned(self._snapshot, owner):
            self.unowned.add(role)
        if owner is None:
            self.unassigned.add(role)
        else:
            self.by_shard[owner].add(role)
            self.draining[owner] += self._snapshot.is_draining(obj)
        return True


def is_unowned(snapshot: RingSnapshot, owner: ShardName | None) -> bool:
    """Return whether no shard works on an object with this owner."""
    return owner is None or snapshot.members.standing_of(owner) is Standing.GONE
