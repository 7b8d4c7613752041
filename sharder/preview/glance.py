"""Judge the shards of a ring at one glance, by whoever has not watched their Leases.

The service never does: it takes objects from a shard only after it has watched.  What is read
here is for people, so it says what follows if the Leases tell the truth: a shard that holds its
Lease works, one whose Lease is not there does not.
"""

from collections.abc import Iterable
from datetime import datetime

from sharder.api.lease import Lease
from sharder.api.meta import PartialObject
from sharder.api.ring import ControllerRing
from sharder.api.selector import LabelSelector
from sharder.leases import HEALTHIEST_FIRST, ShardState, state_of
from sharder.membership import Members, ring_of
from sharder.names import EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE, RingName, ShardName
from sharder.register import UNKNOWN_SILENCE, Membership


def members_of(ring: ControllerRing, leases: Iterable[Lease]) -> Members:
    """Return the standings of the ring's shards; one without a Lease is gone."""
    membership = Membership(started=-UNKNOWN_SILENCE)
    membership.replace(leases, at=0)
    return membership.members(ring.name, at=0, namespaces=ring.spec.shard_namespaces)


def selected_namespaces(
    ring: ControllerRing, namespaces: Iterable[PartialObject], default: LabelSelector
) -> frozenset[str]:
    """Return which of `namespaces` the ring selects; `default` is for one that does not say.

    The service's own namespace is not known here; it is taken to be the usual one.
    """
    selector = ring.spec.namespace_selector or default
    selected = (n.metadata.name for n in namespaces if selector.matches(n.metadata.labels or {}))
    return frozenset(selected) - {EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE}


def not_ready(ring: ControllerRing) -> str | None:
    """Return why the ring says that it does not work, None if it does not say so."""
    ready = next((it for it in ring.status.conditions if it.type == "Ready"), None)
    if ready is None or ready.status != "False":
        return None
    return ready.message or ready.reason


def states_of(
    ring: RingName, leases: Iterable[Lease], now: datetime
) -> dict[ShardName, ShardState]:
    """Return the state of every shard of the ring at `now` (aware), by the times in its Lease.

    Of two Leases of one name, in two namespaces, the healthier one counts.
    """
    states: dict[ShardName, ShardState] = {}
    for lease in leases:
        if ring_of(lease) == ring:
            shard, state = ShardName(lease.metadata.name), state_of(lease, now)
            states[shard] = min(state, states.get(shard, state), key=HEALTHIEST_FIRST.index)
    return states
