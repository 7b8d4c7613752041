"""The shards and objects of a ring as a single read shows them, for people.

The service takes objects from a shard only after it has watched the shard's Lease.  A single read
trusts the Leases instead: a shard that holds its Lease works, and one without a Lease does not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import LabelSelector
from sharder.core.leases.membership import Members, Standing, ring_of
from sharder.core.leases.register import UNKNOWN_SILENCE, Membership
from sharder.core.leases.state import HEALTHIEST_FIRST, ShardState, state_of
from sharder.core.names import EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role


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


def states_of(
    ring: RingName, leases: Iterable[Lease], now: datetime
) -> dict[ShardName, ShardState]:
    """Return the state of every shard of the ring at `now` (aware), by the times in its Lease.

    If two namespaces have a Lease of the same name, the healthier one counts.
    """
    states: dict[ShardName, ShardState] = {}
    for lease in leases:
        if ring_of(lease) == ring:
            shard, state = ShardName(lease.metadata.name), state_of(lease, now)
            states[shard] = min(state, states.get(shard, state), key=HEALTHIEST_FIRST.index)
    return states


class ObjectCount:
    """The counts of one ring's objects, which are added one by one."""

    def __init__(self, snapshot: RingSnapshot) -> None:
        self._snapshot = snapshot
        self.objects = 0
        self.unassigned = 0
        """Objects without an owner label."""
        self.unowned = 0
        """Objects without an available owner: unassigned, or of a shard that is gone."""
        self.by_shard: Counter[ShardName] = Counter()
        self.draining: Counter[ShardName] = Counter()

    def count(self, obj: PartialObject, role: Role) -> None:
        """Count an object, unless it is out of scope or a controlled one without a controller."""
        if not self._snapshot.selects(obj, role) or self._snapshot.key_of(obj, role) is None:
            return
        owner = self._snapshot.owner_of(obj)
        self.objects += 1
        self.unassigned += owner is None
        self.unowned += is_unowned(self._snapshot, owner)
        if owner is not None:
            self.by_shard[owner] += 1
            self.draining[owner] += self._snapshot.is_draining(obj)


def is_unowned(snapshot: RingSnapshot, owner: ShardName | None) -> bool:
    """Return whether no shard works on an object with this owner."""
    return owner is None or snapshot.members.standing_of(owner) is Standing.GONE


def imbalance(counts: Mapping[ShardName, int], shards: Iterable[ShardName]) -> float | None:
    """Return the highest count divided by the mean; 1.0 is perfect balance.

    The result is None without shards, or if none of them has objects.
    """
    sizes = [counts.get(shard, 0) for shard in shards]
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else None
