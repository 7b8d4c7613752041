"""What the commands that steer write: one field of a Lease, a ring or an object each.

A command reads an object, decides, and writes a merge patch that applies only to the version that
was read.  Values that are already as wanted are not written.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import view_of
from sharder.cli.lookup import find, lease_of
from sharder.cli.output import warn, write
from sharder.cli.tables import PAUSED
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
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.kube.typed_stores import LEASES, RINGS
from sharder.ports import Store

MAX_TRIES: Final = 5
"""Conflicts after which a command gives up; shards write their Leases every few seconds."""

Steerable: TypeAlias = ControllerRing | Lease | PartialObject
Value: TypeAlias = str | bool | None
"""Of an annotation, a label or a field; None: absent."""


_FIELDS: Final = {LEASES.id: ("metadata", "annotations"), RINGS.id: ("spec", "movement")}
_LABELS: Final = ("metadata", "labels")
"""The path of the values in Leases, in rings, and in the objects of a ring."""


class Target(NamedTuple):
    """The object to write, as it was read."""

    snapshot: RingSnapshot
    resource: GroupResource
    obj: Steerable
    store: Store[Steerable]

    @property
    def name(self) -> str:
        """The name in messages."""
        ref = self.obj.metadata.ref
        is_object = self.resource not in {LEASES.id, RINGS.id}
        return f"{self.resource} {ref}" if is_object else ref.name


class Steering(NamedTuple):
    """What a command writes, and the sentences that it prints.

    The sentences can have `{name}`, `{is_}` in place of the verb, and `{was}` for the value that
    is replaced.
    """

    command: str
    of: GroupResource | None
    """The resource to write; None: an object of the ring."""
    wanted: Mapping[str, Value]
    done: str
    already: str
    """The result if nothing has to be written."""
    shard: ShardName | None = None
    """The shard of a pin, which must be one of the ring."""


CORDON: Final = Steering(
    "cordon", LEASES.id, {CORDONED_ANNOTATION: "true"},
    done="{name} {is_} cordoned: it keeps its objects and gets no new ones",
    already="{name} is already cordoned",
)  # fmt: skip
UNCORDON: Final = Steering(
    "uncordon", LEASES.id, {CORDONED_ANNOTATION: None, EVACUATE_ANNOTATION: None},
    done="{name} {is_} uncordoned: it gets new objects",
    already="{name} is already uncordoned",
)  # fmt: skip
EVACUATE: Final = Steering(
    "evacuate", LEASES.id, {EVACUATE_ANNOTATION: "true"},
    done="{name} {is_} marked for evacuation: it gets no new objects",
    already="{name} is already marked for evacuation",
)  # fmt: skip
PAUSE: Final = Steering(
    "pause", RINGS.id, {"paused": True},
    done="{name} {is_} paused: no objects are drained; those whose shard is gone are still "
    "reassigned",
    already="{name} is already paused",
)  # fmt: skip
RESUME: Final = Steering(
    "resume", RINGS.id, {"paused": False},
    done="{name} {is_} resumed: objects move to where they belong",
    already="{name} is not paused",
)  # fmt: skip


def pin(ring: str, shard: str | None) -> Steering:
    """Return the write that pins objects of the ring to a shard; None removes their pins."""
    to = None if shard is None else ShardName(shard)
    what = "unpinned" if to is None else f"pinned to {to}"
    return Steering(
        "pin", None, {pin_label(RingName(ring)): to},
        done=f"{{name}} {{is_}} {what}{{was}}",
        already="{name} is not pinned" if to is None else f"{{name}} is already {what}",
        shard=to,
    )  # fmt: skip


def _warnings(target: Target, steering: Steering) -> tuple[str, ...]:
    """Return why the write might not have the effect that people expect."""
    snapshot, meta, pinned = target.snapshot, target.obj.metadata, steering.shard
    members, ring = snapshot.members, snapshot.name
    shard = pinned or ShardName(target.name)
    member, owner = members.shards.get(shard), meta.label(snapshot.owner_label) or None
    is_available, is_paused = shard in members.available, snapshot.ring.spec.movement.paused
    is_last = all(members.shards[name].set_aside for name in members.available - {shard})
    is_evacuating = member is not None and member.evacuating
    is_cordoned = member is not None and member.cordoned and not is_evacuating
    is_outside = isinstance(target.obj, PartialObject) and not snapshot.selects(target.obj)
    restores = meta.annotation(EVACUATE_ANNOTATION) == EVACUATE_ON_STOP
    paused = f"movement of {ring} {PAUSED}"
    table: Mapping[str, Mapping[str, bool]] = {
        "cordon": {
            f"no other shard of {ring} accepts objects: new objects wait": is_last,
            f'{shard} is still being evacuated; run "sharder uncordon" to end that': is_evacuating,
        },
        "uncordon": {
            f"{shard} evacuates itself before it stops, and restores the annotation while it "
            "runs": restores,
        },
        "evacuate": {
            f"no other shard of {ring} accepts objects: its objects stay": is_last,
            f"{shard} is not available; when it is back it gets no objects until "
            '"sharder uncordon"': not is_available,
            paused: is_available and is_paused,
        },
        "pin": {
            f"{meta.ref} is not in the scope of {ring}: the pin has no effect": is_outside,
            f"{shard} is not available: the pin has no effect until it is": not is_available,
            f"{shard} is being evacuated: the pin has no effect": is_evacuating,
            f"{shard} is cordoned: the pin moves no object to it": is_cordoned and owner != shard,
            paused: is_paused and owner not in {None, shard},
        },
    }
    if steering.command == "pin" and pinned is None:
        return ()
    return tuple(text for text, applies in table.get(steering.command, {}).items() if applies)


async def _find(cluster: Cluster, snapshot: RingSnapshot, steering: Steering, name: str) -> Target:
    """Return the target of this name; a ConfigError says that there is none."""
    if steering.of == RINGS.id:
        return Target(snapshot, RINGS.id, snapshot.ring, cluster.rings)
    if steering.of == LEASES.id:
        return Target(snapshot, LEASES.id, lease_of(snapshot, name), cluster.leases)
    if steering.shard is not None:
        lease_of(snapshot, steering.shard)
    served, obj = await find(cluster, snapshot, name)
    if steering.shard is not None and snapshot.roles[served.id] is Role.CONTROLLED:
        raise ConfigError(
            f"{served.id} are controlled objects, which follow their parents: pin the parent"
        )
    return Target(snapshot, served.id, obj, cluster.objects.of(served))


async def one_by_one(
    cluster: Cluster, *, writes: Iterable[Callable[[Cluster], Awaitable[str]]]
) -> None:
    """Do all writes and print their results; an error of one does not stop the next one.

    Raises:
        SharderError: there were errors; the message has all of them.
    """
    errors = list[str]()
    for each in writes:
        try:
            write(await each(cluster))
        except SharderError as error:
            errors.append(str(error))
    if errors:
        raise SharderError("; ".join(dict.fromkeys(errors)))


async def steer(
    cluster: Cluster, steering: Steering, ring: str, name: str, *, dry_run: bool
) -> str:
    """Write to the target of this name, except in a dry run; warn, and return the result.

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
) -> str:
    snapshot = (await view_of(cluster, ring)).snapshot
    target = await _find(cluster, snapshot, steering, name)
    values = _values(target.obj)
    changes = {key: new for key, new in steering.wanted.items() if values.get(key) != new}
    if changes and not dry_run:
        await _write(target, steering, changes)
    for warning in _warnings(target, steering):
        warn(warning)
    before = next((values.get(key) for key in changes), None)
    result = (steering.done if changes else steering.already).format(
        name=target.name,
        is_="would be" if dry_run else "is",
        was=f" (was {before})" if before else "",
    )
    return f"dry run, nothing is written: {result}" if dry_run and changes else result


async def _write(target: Target, steering: Steering, changes: Mapping[str, Value]) -> None:
    meta, (outer, inner) = target.obj.metadata, _FIELDS.get(target.resource, _LABELS)
    patch: dict[str, dict[str, Json]] = {"metadata": {"resourceVersion": meta.resource_version}}
    patch.setdefault(outer, {})[inner] = {**changes}
    values = _values(await target.store.patch(meta.ref, patch))
    if any(values.get(key) != value for key, value in steering.wanted.items()):
        raise SharderError(
            f"{target.resource} {meta.ref} did not keep the change: check the mutating webhooks, "
            "and whether its CRD is from an older sharder"
        )


def _values(obj: Steerable) -> Mapping[str, Value]:
    """Return the values that commands steer."""
    if isinstance(obj, ControllerRing):
        return {"paused": obj.spec.movement.paused}
    return (obj.metadata.annotations if isinstance(obj, Lease) else obj.metadata.labels) or {}
