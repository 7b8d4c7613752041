"""How far the evacuation of a shard is: what it still has, and waiting until that is nothing."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from sharder.cli.cluster_view import View, view_of
from sharder.cli.operations import ClusterAccess, evacuate, other_open
from sharder.cli.reports import OperationReport
from sharder.core.errors import ApiError, Expired, SharderError, Unavailable
from sharder.core.names import ShardName
from sharder.core.preview.observe import ObjectCount

POLL_SECONDS: Final = 1.0
"""Between two looks at what is left."""

LOOKS: Final = 2
"""That have to find nothing: a webhook may not have heard of the evacuation at the first."""

_NAMED: Final = 3
"""Objects that an error names."""

_GO_ON: Final = "wait again, or take it back with sharder uncordon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a shard still has."""

    objects: int
    draining: int
    some: tuple[str, ...]
    """A few of them, as `resource namespace/name`."""


async def begin(reach: ClusterAccess, *, ring: str, shard: str, dry_run: bool) -> OperationReport:
    """Mark a shard for evacuation, or only say so, and tell how many objects have to leave.

    Raises:
        ConfigError: there is no such ring or shard.
        ApiError: in a dry run, its objects cannot be counted.
    """
    report = await evacuate(reach, ring=ring, shard=shard, dry_run=dry_run)
    try:
        view = await view_of(reach.cluster, ring)
        left = await _count(reach, view, ShardName(shard))
    except ApiError:
        if dry_run:
            raise
        return report  # what was asked for is done
    told = f"{report.result}; {_outlook(view, shard, left.objects, dry_run=dry_run)}"
    return msgspec.structs.replace(report, objects=left.objects, result=told)


def _outlook(view: View, shard: str, objects: int, *, dry_run: bool) -> str:
    """Say what becomes of the shard's objects; nothing has moved yet."""
    if not objects:
        return "it has no objects"
    counted = "1 object" if objects == 1 else f"{objects} objects"
    if view.snapshot.ring.spec.movement.paused:
        return f"nothing moves until sharder resume, it has {counted}"
    if not other_open(view, shard):
        return f"nothing moves until another shard is open, it has {counted}"
    return f"{counted} {'would' if dry_run else 'will'} move"


async def complete(
    reach: ClusterAccess, *, ring: str, shard: str, within: timedelta | None
) -> OperationReport:
    """Evacuate a shard and wait until it has no objects; None: for as long as that takes.

    Raises:
        ConfigError: there is no such ring or shard, or the ring is deleted meanwhile.
        SharderError: time is up, or somebody takes the evacuation back; the message says what is
            left.
    """
    try:
        report = await evacuate(reach, ring=ring, shard=shard, dry_run=False)
        await _wait(reach, ring, ShardName(shard), within)
    except asyncio.CancelledError:
        reach.shown.warn(f"interrupted; an evacuation that has begun goes on: {_GO_ON}")
        raise
    return msgspec.structs.replace(report, objects=0, result=f"{shard} has no objects any more")


async def _wait(
    reach: ClusterAccess, ring: str, shard: ShardName, within: timedelta | None
) -> None:
    begun, empty = reach.clock.monotonic(), 0
    left: Left | None = None
    while empty < LOOKS:
        try:
            view = await view_of(reach.cluster, ring)
            left = await _count(reach, view, shard)
        except (Expired, Unavailable) as error:
            empty = 0
            reach.shown.show(f"cannot tell what {shard} has left: {error}")
        else:
            _insist_on_evacuation(view, shard, left)
            empty = empty + 1 if left.objects == 0 else 0
            reach.shown.show(_line(shard, left))
        spent = reach.clock.monotonic() - begun
        if empty == 0 and within is not None and spent >= within.total_seconds():
            raise SharderError(
                f"after {within.total_seconds():g} s {_told(shard, left)}; it goes on: {_GO_ON}"
            )
        await reach.clock.sleep(POLL_SECONDS)


async def _count(reach: ClusterAccess, view: View, shard: ShardName) -> Left:
    """Read the objects that the shard has, and no others."""
    census, some = ObjectCount(view.snapshot), list[str]()
    labels = f"{view.snapshot.owner_label}={shard}"
    for id_, role in view.snapshot.roles.items():
        resource = await reach.cluster.objects.find(id_)
        async for obj in reach.cluster.objects.of(resource, labels).stream():
            before = census.objects
            census.count(obj, role)
            if census.objects > before and len(some) < _NAMED:
                some.append(f"{id_} {obj.metadata.ref}")
    return Left(objects=census.objects, draining=census.draining[shard], some=tuple(some))


def _insist_on_evacuation(view: View, shard: ShardName, left: Left) -> None:
    says = view.snapshot.members.shards.get(shard)
    if says is not None and not says.evacuating:
        raise SharderError(f"somebody has ended the evacuation: {_told(shard, left)}")


def _line(shard: ShardName, left: Left) -> str:
    return f"{shard} has {left.objects} objects, {left.draining} of them draining"


def _told(shard: ShardName, left: Left | None) -> str:
    if left is None:
        return f"nobody knows what {shard} has left"
    named = f": {', '.join(left.some)}" if left.some else ""
    more = ", …" if left.objects > len(left.some) else ""
    return f"{_line(shard, left)}{named}{more}"
