"""What the commands that steer write: one field of a Lease, a ring or an object each.

A command reads an object, decides, and writes a merge patch that applies only to the version that
was read.  Values that are already as wanted are not written.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import View, view_of
from sharder.cli.lookup import find, lease_of, ring_named
from sharder.cli.reports import FieldChange, FieldValue, Operation, OperationReport
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError, Conflict, SharderError
from sharder.core.names import (
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    EVACUATE_ON_STOP,
    GroupResource,
    RingName,
    ShardName,
    pin_label,
)
from sharder.core.ring.snapshot import Role
from sharder.kube.typed_stores import LEASES, RINGS
from sharder.ports import Writable

MAX_TRIES: Final = 5
"""Conflicts after which a command gives up; shards write their Leases every few seconds."""

Steerable: TypeAlias = ControllerRing | Lease | PartialObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object to write, as it was read."""

    view: View
    resource: GroupResource
    obj: Steerable
    store: Writable[Steerable]

    @property
    def name(self) -> str:
        """The name in messages."""
        ref = self.obj.metadata.ref
        is_object = self.resource not in {LEASES.id, RINGS.id}
        return f"{self.resource} {ref}" if is_object else ref.name


class Steering(NamedTuple):
    """What a command writes, and the sentences of its report.

    The sentences can have `{name}`, `{is_}` in place of the verb, and `{was}` for the value that
    is replaced.
    """

    operation: Operation
    of: GroupResource | None
    """The resource to write; None: an object of the ring."""
    field: str
    """The path of the map or struct that has the values."""
    wanted: Mapping[str, FieldValue]
    done: str
    already: str
    """The result if nothing has to be written."""
    shard: ShardName | None = None
    """The shard of a pin, which must be one of the ring."""


CORDON: Final = Steering(
    Operation.CORDON, LEASES.id, "metadata.annotations", {CORDONED_ANNOTATION: "true"},
    done="{name} {is_} cordoned: it keeps its objects and gets no new ones",
    already="{name} is already cordoned",
)  # fmt: skip
UNCORDON: Final = Steering(
    Operation.UNCORDON, LEASES.id, "metadata.annotations",
    {CORDONED_ANNOTATION: None, EVACUATE_ANNOTATION: None},
    done="{name} {is_} uncordoned: it gets new objects",
    already="{name} is already uncordoned",
)  # fmt: skip
EVACUATE: Final = Steering(
    Operation.EVACUATE, LEASES.id, "metadata.annotations", {EVACUATE_ANNOTATION: "true"},
    done="{name} {is_} marked for evacuation: it gets no new objects",
    already="{name} is already marked for evacuation",
)  # fmt: skip
PAUSE: Final = Steering(
    Operation.PAUSE, RINGS.id, "spec.movement", {"paused": True},
    done="{name} {is_} paused: no objects are drained; those whose shard is gone are still "
    "reassigned",
    already="{name} is already paused",
)  # fmt: skip
RESUME: Final = Steering(
    Operation.RESUME, RINGS.id, "spec.movement", {"paused": False},
    done="{name} {is_} resumed: objects move to where they belong",
    already="{name} is not paused",
)  # fmt: skip


def pin(ring: str, shard: str | None) -> Steering:
    """Return the write that pins objects of the ring to a shard; None removes their pins."""
    to = None if shard is None else ShardName(shard)
    what = "unpinned" if to is None else f"pinned to {to}"
    return Steering(
        Operation.PIN, None, "metadata.labels", {pin_label(RingName(ring)): to},
        done=f"{{name}} {{is_}} {what}{{was}}",
        already="{name} is not pinned" if to is None else f"{{name}} is already {what}",
        shard=to,
    )  # fmt: skip


def _warnings(target: Target, steering: Steering) -> tuple[str, ...]:
    """Return why the write might not have the effect that people expect."""
    snapshot, meta, pinned = target.view.snapshot, target.obj.metadata, steering.shard
    members, ring = snapshot.members, snapshot.name
    shard = pinned or ShardName(target.name)
    member, owner = members.shards.get(shard), meta.label(snapshot.owner_label) or None
    is_available, is_paused = shard in members.available, snapshot.ring.spec.movement.paused
    is_last = all(members.shards[name].set_aside for name in members.available - {shard})
    is_evacuating = member is not None and member.evacuating
    is_cordoned = member is not None and member.cordoned and not is_evacuating
    is_outside = isinstance(target.obj, PartialObject) and not snapshot.selects(target.obj)
    restores = meta.annotation(EVACUATE_ANNOTATION) == EVACUATE_ON_STOP
    paused = f'movement of {ring} is paused; run "sharder resume" to continue'
    table: Mapping[Operation, Mapping[str, bool]] = {
        Operation.CORDON: {
            f"no other shard of {ring} accepts objects: new objects wait": is_last,
            f'{shard} is still being evacuated; run "sharder uncordon" to end that': is_evacuating,
        },
        Operation.UNCORDON: {
            f"{shard} evacuates itself before it stops, and restores the annotation while it "
            "runs": restores,
        },
        Operation.EVACUATE: {
            f"no other shard of {ring} accepts objects: its objects stay": is_last,
            f"{shard} is not available; when it is back it gets no objects until "
            '"sharder uncordon"': not is_available,
            paused: is_available and is_paused,
        },
        Operation.PIN: {
            f"{meta.ref} is not in the scope of {ring}: the pin has no effect": is_outside,
            f"{shard} is not available: the pin has no effect until it is": not is_available,
            f"{shard} is being evacuated: the pin has no effect": is_evacuating,
            f"{shard} is cordoned: the pin moves no object to it": is_cordoned and owner != shard,
            paused: is_paused and owner not in {None, shard},
        },
    }
    if steering.operation is Operation.PIN and pinned is None:
        return ()
    return tuple(text for text, applies in table.get(steering.operation, {}).items() if applies)


async def _find(cluster: Cluster, view: View, steering: Steering, name: str) -> Target:
    """Return the target of this name; a ConfigError says that there is none."""
    snapshot = view.snapshot
    if steering.of == RINGS.id:
        return Target(view=view, resource=RINGS.id, obj=snapshot.ring, store=cluster.rings)
    if steering.of == LEASES.id:
        lease = lease_of(snapshot, name)
        return Target(view=view, resource=LEASES.id, obj=lease, store=cluster.leases)
    if steering.shard is not None:
        lease_of(snapshot, steering.shard)
    resource, _, rest = name.partition("/")
    served, obj = await find(cluster, snapshot, resource, rest)
    if steering.shard is not None and snapshot.roles[served.id] is Role.CONTROLLED:
        raise ConfigError(
            f"{served.id} are controlled objects, which follow their parents: pin the parent"
        )
    return Target(view=view, resource=served.id, obj=obj, store=cluster.objects.of(served))


Write: TypeAlias = Callable[[Cluster], Awaitable[OperationReport]]


class Outcome(NamedTuple):
    """The reports of the writes that succeeded, and the errors of the others."""

    reports: tuple[OperationReport, ...]
    errors: tuple[SharderError, ...] = ()


async def one_by_one(cluster: Cluster, *, writes: Iterable[Write]) -> Outcome:
    """Do all writes; an error of one does not stop the next one."""
    reports, errors = list[OperationReport](), list[SharderError]()
    for write in writes:
        try:
            reports.append(await write(cluster))
        except SharderError as error:
            errors.append(error)
    return Outcome(tuple(reports), tuple(errors))


async def steer(
    cluster: Cluster, steering: Steering, ring: str, name: str, *, dry_run: bool
) -> OperationReport:
    """Write to the target of this name, except in a dry run; show its warnings.

    Raises:
        ConfigError: there is no such ring or target.
        Conflict: another client wrote the target before each of `MAX_TRIES` attempts.
        SharderError: the API server did not keep the change.
    """
    for _ in range(MAX_TRIES - 1):
        with suppress(Conflict):
            return await _attempt(cluster, steering, ring, name, dry_run=dry_run)
    return await _attempt(cluster, steering, ring, name, dry_run=dry_run)


async def _attempt(
    cluster: Cluster, steering: Steering, ring: str, name: str, *, dry_run: bool
) -> OperationReport:
    view = await view_of(cluster, ring_named(ring))
    target = await _find(cluster, view, steering, name)
    changes = _changes(target.obj, steering)
    if changes and not dry_run:
        await _write(target, steering, changes)
    warnings = _warnings(target, steering)
    for warning in warnings:
        cluster.shown.warn(warning)
    before = changes[0].before if changes else None
    result = (steering.done if changes else steering.already).format(
        name=target.name,
        is_="would be" if dry_run else "is",
        was=f" (was {before})" if before else "",
    )
    return OperationReport(
        ring=view.snapshot.name,
        operation=steering.operation,
        dry_run=dry_run,
        object=f"{target.resource} {target.obj.metadata.ref}",
        changes=changes,
        result=f"dry run, nothing is written: {result}" if dry_run and changes else result,
        objects=None,
        warnings=warnings,
    )


async def _write(target: Target, steering: Steering, changes: Iterable[FieldChange]) -> None:
    meta, (outer, inner) = target.obj.metadata, steering.field.split(".")
    patch: dict[str, dict[str, Json]] = {"metadata": {"resourceVersion": meta.resource_version}}
    patch.setdefault(outer, {})[inner] = {change.key: change.after for change in changes}
    if _changes(await target.store.patch(meta.ref, patch), steering):
        raise SharderError(
            f"{target.resource} {meta.ref} did not keep the change: check the mutating webhooks, "
            "and whether its CRD is from an older sharder"
        )


def _changes(obj: Steerable, steering: Steering) -> tuple[FieldChange, ...]:
    """Return the values of the object that differ from the wanted ones."""
    current: Mapping[str, FieldValue]
    if isinstance(obj, ControllerRing):
        current = {"paused": obj.spec.movement.paused}
    else:
        meta = obj.metadata
        current = (meta.annotations if isinstance(obj, Lease) else meta.labels) or {}
    return tuple(
        FieldChange(field=steering.field, key=key, before=current.get(key), after=value)
        for key, value in steering.wanted.items()
        if current.get(key) != value
    )
