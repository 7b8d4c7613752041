"""`sharder pin` and `sharder unpin`: the label that pins an object to a shard."""

from collections.abc import Iterator

from sharder.cli.cluster_view import view_of
from sharder.cli.edits import LABELS, Edit, carry_out, retry_on_conflict
from sharder.cli.lookup import find, lease_of, ring_named
from sharder.cli.operations import ClusterAccess
from sharder.cli.reports import Operation, OperationReport
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ConfigError
from sharder.core.names import ShardName, pin_label
from sharder.core.ring.snapshot import RingSnapshot, Role


async def pin(
    access: ClusterAccess, *, ring: str, resource: str, name: str, shard: str, dry_run: bool
) -> OperationReport:
    """Pin an object to a shard; replaces an earlier pin.

    Raises:
        ConfigError: there is no such ring, resource, object or shard, or the object is of a
            controlled resource.
    """

    async def attempt() -> OperationReport:
        snapshot = (await view_of(access.cluster, ring_named(ring))).snapshot
        target = ShardName(lease_of(snapshot, shard).metadata.name)
        served, obj = await find(access.cluster, snapshot, resource, name)
        if snapshot.roles[served.id] is Role.CONTROLLED:
            raise ConfigError(
                f"{served.id} are controlled objects, which follow their parents: pin the parent"
            )
        before = obj.metadata.label(pin_label(snapshot.name))
        edit: Edit[PartialObject] = Edit(
            ring=snapshot.name,
            operation=Operation.PIN,
            resource=served.id,
            field=LABELS,
            wanted={pin_label(snapshot.name): target},
            done=f"{served.id} {obj.metadata.ref} {{is_}} pinned to {target}"
            + (f" instead of {before}" if before else ""),
            already=f"{served.id} {obj.metadata.ref} is already pinned to {target}",
            warnings=tuple(_warnings(snapshot, obj, target)),
        )
        return await _carry_out(access, served, obj, edit, dry_run=dry_run)

    return await retry_on_conflict(attempt, access.shown.warn)


async def unpin(
    access: ClusterAccess, *, ring: str, resource: str, name: str, dry_run: bool
) -> OperationReport:
    """Remove the pin of an object.

    Raises:
        ConfigError: there is no such ring, resource or object.
    """

    async def attempt() -> OperationReport:
        snapshot = (await view_of(access.cluster, ring_named(ring))).snapshot
        served, obj = await find(access.cluster, snapshot, resource, name)
        before = obj.metadata.label(pin_label(snapshot.name))
        edit: Edit[PartialObject] = Edit(
            ring=snapshot.name,
            operation=Operation.UNPIN,
            resource=served.id,
            field=LABELS,
            wanted={pin_label(snapshot.name): None},
            done=f"{served.id} {obj.metadata.ref} {{is_}} unpinned"
            + (f" from {before}" if before else ""),
            already=f"{served.id} {obj.metadata.ref} is not pinned",
        )
        return await _carry_out(access, served, obj, edit, dry_run=dry_run)

    return await retry_on_conflict(attempt, access.shown.warn)


async def _carry_out(
    access: ClusterAccess,
    resource: Resource,
    obj: PartialObject,
    edit: Edit[PartialObject],
    *,
    dry_run: bool,
) -> OperationReport:
    return await carry_out(access.cluster.objects.of(resource), obj, edit, dry_run=dry_run)


def _warnings(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> Iterator[str]:
    """Yield the reasons why the object might not move to the shard."""
    members, owner = snapshot.members, snapshot.owner_of(obj)
    if not snapshot.selects(obj):
        yield f"{obj.metadata.ref} is not in the scope of {snapshot.name}: the pin has no effect"
    if shard not in members.available:
        yield f"{shard} is not available: the pin has no effect until it is"
    if members.shards[shard].evacuating:
        yield f"{shard} is being evacuated: the pin has no effect"
    elif members.shards[shard].cordoned and owner != shard:
        yield f"{shard} is cordoned: the pin moves no object to it"
    if snapshot.ring.spec.movement.paused and owner not in {None, shard}:
        yield f'movement of {snapshot.name} is paused; run "sharder resume" to continue'
