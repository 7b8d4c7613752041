"""`sharder objects`: the objects of a ring, and since when they are in their state."""

from collections.abc import AsyncIterator
from math import inf

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import view_of
from sharder.cli.output import warn
from sharder.cli.reports import ObjectRow, ObjectsReport, ObjectState
from sharder.core.api.lease import format_time, parse_time
from sharder.core.keys import main_key
from sharder.core.names import ShardName
from sharder.core.plan.observe import DatedObject, Since, created, is_unowned, labelled
from sharder.core.ring.snapshot import RingSnapshot, Role


async def objects(
    cluster: Cluster, *, ring: str, state: str | None, shard: str | None
) -> ObjectsReport:
    """Return the objects in a state, or in any; with `shard` only those of this shard.

    Only metadata is read, page by page.

    Raises:
        ConfigError: there is no such ring.
        ApiError: its objects cannot be read.
    """
    snapshot = (await view_of(cluster, ring)).snapshot
    wanted = None if state is None else ObjectState(state)
    rows = [
        row
        async for row in _rows(cluster, snapshot, _selector(snapshot, wanted, shard), wanted)
        if wanted in {None, row.state} and shard in {None, row.shard}
    ]
    known = snapshot.members.namespaces
    if shard and not rows and shard not in known:
        names = ", ".join(sorted(known)) or "none"
        warn(f"ring {snapshot.name} has no shard {shard}; its shards: {names}")
    now = format_time(cluster.now)
    return ObjectsReport(ring=snapshot.name, time=now, objects=tuple(sorted(rows, key=_order)))


def _selector(snapshot: RingSnapshot, state: ObjectState | None, shard: str | None) -> str:
    """Return a label selector that spares the API server other objects."""
    if state is ObjectState.UNASSIGNED:
        return f"!{snapshot.owner_label}"
    if state is ObjectState.DRAINING:
        return snapshot.drain_label
    # Whether a controlled object is apart follows from its parent, which can be on any shard.
    is_alone = Role.CONTROLLED not in snapshot.roles.values()
    return f"{snapshot.owner_label}={shard}" if shard and is_alone else ""


async def _rows(
    cluster: Cluster, snapshot: RingSnapshot, labels: str, wanted: ObjectState | None
) -> AsyncIterator[ObjectRow]:
    """Yield main objects before controlled ones, which are compared with their parents."""
    parents = dict[str, tuple[ShardName | None, Since | None]]()
    for resource, role in sorted(snapshot.roles.items(), key=lambda it: it[1] is Role.CONTROLLED):
        if wanted is ObjectState.APART and role is Role.MAIN:
            continue
        served = await cluster.objects.find(resource)
        async for obj in cluster.dated(served).stream(labels):
            if not snapshot.selects(obj, role) or snapshot.key_of(obj, role) is None:
                continue
            owner, (state, since) = snapshot.owner_of(obj), state_and_since(snapshot, obj)
            if role is Role.LEADING:
                parents[main_key(obj)] = owner, labelled(obj, snapshot.owner_label)
            if role is Role.CONTROLLED and state is ObjectState.ASSIGNED:
                leader, moved = parents.get(snapshot.controller_key(obj) or "", (owner, None))
                if leader != owner:
                    state, since = ObjectState.APART, moved
            yield ObjectRow(
                object=main_key(obj),
                shard=owner,
                state=state,
                since=None if since is None else since.time,
                bound=None if since is None else since.bound,
            )


def state_and_since(snapshot: RingSnapshot, obj: DatedObject) -> tuple[ObjectState, Since | None]:
    """Return the state of an object by itself, and since when it is in it."""
    owner = snapshot.owner_of(obj)
    if owner is None:
        return ObjectState.UNASSIGNED, created(obj)
    if is_unowned(snapshot, owner):
        return ObjectState.UNOWNED, None
    if snapshot.is_draining(obj):
        return ObjectState.DRAINING, labelled(obj, snapshot.drain_label)
    return ObjectState.ASSIGNED, labelled(obj, snapshot.owner_label)


def _order(row: ObjectRow) -> tuple[float, str]:
    time = parse_time(row.since)
    return (inf if time is None else time.timestamp()), row.object
