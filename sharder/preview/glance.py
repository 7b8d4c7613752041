"""Judge the shards of a ring at one glance, by whoever has not watched their Leases.

The service never does: it takes objects from a shard only after it has watched.  What is read
here is for people, so it says what follows if the Leases tell the truth: a shard that holds its
Lease works, one whose Lease is not there does not.
"""

from collections.abc import Iterable
from datetime import datetime

from sharder.api.lease import Lease
from sharder.leases import ShardState, state_of
from sharder.membership import UNKNOWN_SILENCE, Members, Membership, ring_of
from sharder.names import RingName, ShardName

_BEST_FIRST = tuple(ShardState)


def members_of(ring: RingName, leases: Iterable[Lease]) -> Members:
    """Return the standings of the ring's shards; one without a Lease is gone."""
    membership = Membership(started=-UNKNOWN_SILENCE)
    membership.replace(leases, at=0)
    return membership.members(ring, at=0)


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
            states[shard] = min(state, states.get(shard, state), key=_BEST_FIRST.index)
    return states
