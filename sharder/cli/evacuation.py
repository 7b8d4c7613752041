"""`sharder evacuate`: mark a shard, count its objects, and wait until it has none."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import View, count, view_of
from sharder.cli.output import warn, write
from sharder.cli.steering import EVACUATE, steer
from sharder.core.errors import ApiError, Expired, SharderError, Unavailable
from sharder.core.names import ShardName
from sharder.core.plan.observe import RingTotals

POLL_SECONDS: Final = 1.0
"""Seconds between two counts of the objects that are left."""

EMPTY_POLLS: Final = 2
"""Counts in a row that must be 0: a webhook can still assign objects until it sees the mark."""

_NEXT: Final = 'wait again, or end it with "sharder uncordon"'


async def begin(cluster: Cluster, *, ring: str, shard: str, dry_run: bool) -> str:
    """Mark a shard for evacuation, except in a dry run; return the result, and what it has.

    Raises:
        ConfigError: there is no such ring or shard.
        ApiError: in a dry run, the objects cannot be counted.
    """
    result = await steer(cluster, EVACUATE, ring, shard, dry_run=dry_run)
    try:
        left = await _count(cluster, await view_of(cluster, ring), ShardName(shard))
    except ApiError:
        if dry_run:
            raise
        return result  # the shard is marked, so the operation has succeeded
    return f"{result}; it has {left.by_shard[ShardName(shard)].words}"


async def complete(
    cluster: Cluster, *, ring: str, shards: Sequence[str], within: timedelta | None
) -> None:
    """Evacuate shards and wait until they have no objects; `within` limits the wait.

    All shards are marked before the wait begins, so that none gets the objects of another shard.

    Raises:
        ConfigError: there is no such ring or shard, or the ring is deleted meanwhile.
        SharderError: the wait timed out, or another client ended an evacuation; the message counts
            the remaining objects.
    """
    begun = cluster.clock.monotonic()
    try:
        for shard in shards:
            await steer(cluster, EVACUATE, ring, shard, dry_run=False)
        for shard in shards:
            await _wait(cluster, ring, ShardName(shard), begun, within)
            write(f"{shard} has no objects left")
    except asyncio.CancelledError:
        warn(f"interrupted; an evacuation that has begun continues: {_NEXT}")
        raise


async def _wait(
    cluster: Cluster, ring: str, shard: ShardName, begun: float, within: timedelta | None
) -> None:
    empty = 0
    said = f"the objects of {shard} could not be counted"
    while empty < EMPTY_POLLS:
        try:
            view = await view_of(cluster, ring)
            left = await _count(cluster, view, shard)
        except (Expired, Unavailable) as error:
            empty = 0
            warn(f"cannot count the objects of {shard}: {error}")
        else:
            has, draining = left.by_shard[shard], left.draining[shard]
            said = f"{shard} has {has.words}, {draining} of them draining"
            current = view.snapshot.members.shards.get(shard)
            if current is not None and not current.evacuating:
                raise SharderError(f"another client ended the evacuation: {said}")
            empty = 0 if has else empty + 1
        spent = cluster.clock.monotonic() - begun
        if empty == 0 and within is not None and spent >= within.total_seconds():
            raise SharderError(
                f"timed out after {within.total_seconds():g}s: {said}; see sharder objects {ring} "
                f"--shard {shard}; the evacuation continues: {_NEXT}"
            )
        await cluster.clock.sleep(POLL_SECONDS)


async def _count(cluster: Cluster, view: View, shard: ShardName) -> RingTotals:
    return await count(cluster, view.snapshot, f"{view.snapshot.owner_label}={shard}")
