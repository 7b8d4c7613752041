"""The load and capacity of each shard of a ring in the status.

Only valid Leases make shards, so the number of entries is bounded.
"""

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sharder.core.api.ring import ShardStatus
from sharder.core.leases.register import Membership
from sharder.core.leases.shard import OBJECTS, Shard
from sharder.core.names import ObjectRef
from sharder.core.quantities import plain
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import ObjectStats
from sharder.core.status.phases import leases_of

MAX_RESOURCES: Final = 8
"""Limit on the resources of one shard's capacity in the status: shards can declare any number."""


def shard_statuses(
    snapshot: RingSnapshot,
    stats: ObjectStats,
    membership: Membership,
    *,
    now: datetime,
    monotonic: float,
    most: int,
) -> list[ShardStatus]:
    """Return the status of at most `most` shards, those with the most objects, sorted by name.

    Each status takes about 50 µs.  `now` and `monotonic` are the times at which states are judged.
    """

    def fullest_first(entry: tuple[ObjectRef, Shard]) -> tuple[int, str]:
        return -stats.by_shard.get(entry[1].name, 0), entry[1].name

    found = []
    fullest = heapq.nsmallest(most, shards_of(snapshot), key=fullest_first)
    for ref, shard in sorted(fullest, key=lambda entry: entry[1].name):
        observed = membership.observed(ref)
        if observed is None:
            continue  # Its Lease was deleted after the snapshot was built.
        objects = stats.by_shard.get(shard.name, 0)
        found.append(
            ShardStatus(
                name=shard.name,
                state=observed.state(now, monotonic),
                objects=objects,
                load={OBJECTS: str(objects)},
                capacity=_capacity(snapshot, shard),
                zone=shard.zone,
                pool=shard.pool,
                cordoned=shard.cordoned,
                evacuating=shard.evacuating,
            )
        )
    return found


def shards_of(snapshot: RingSnapshot) -> Iterator[tuple[ObjectRef, Shard]]:
    """Yield the shards sorted by name, each with its Lease; of several Leases, the held one."""
    shards = snapshot.members.shards
    for name, lease in sorted(leases_of(snapshot.members).items()):
        yield lease.metadata.ref, shards.get(name) or Shard(name=name)


def _capacity(snapshot: RingSnapshot, shard: Shard) -> dict[str, str]:
    declared = {name: plain(shard.capacity[name]) for name in sorted(shard.capacity)}
    declared.pop(OBJECTS, None)
    ceiling = snapshot.placer.layout.declared_by(shard)
    first = {} if ceiling is None else {OBJECTS: str(ceiling)}
    return dict([*first.items(), *declared.items()][:MAX_RESOURCES])
