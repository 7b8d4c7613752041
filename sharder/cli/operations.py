"""`sharder cordon`, `uncordon`, `evacuate`, `pause` and `resume`: edits of a Lease or a ring."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from sharder.cli import connection
from sharder.cli.cluster_view import Cluster, View, cluster_of, view_of
from sharder.cli.edits import ANNOTATIONS, MOVEMENT, Edit, carry_out, retry_on_conflict
from sharder.cli.lookup import lease_of, ring_named
from sharder.cli.progress import Progress, progress
from sharder.cli.reports import FieldValue, Operation, OperationReport
from sharder.core.api.lease import Lease
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import SharderError
from sharder.core.names import (
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    EVACUATE_ON_STOP,
    RING_LABEL,
    ShardName,
)
from sharder.kube.client import Client
from sharder.kube.typed_stores import LEASES, RINGS, leases, rings
from sharder.ports import Store
from sharder.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The parts of the cluster that an operation reads and writes."""

    cluster: Cluster
    rings: Store[ControllerRing]
    leases: Store[Lease]
    clock: Clock
    shown: Progress


T = TypeVar("T")

Operate: TypeAlias = Callable[[ClusterAccess], Awaitable[OperationReport]]


class Outcome(NamedTuple):
    """The reports of the operations that succeeded, and the errors of the others."""

    reports: tuple[OperationReport, ...]
    errors: tuple[SharderError, ...] = ()


def run(
    kubeconfig: str | None, context: str | None, operate: Callable[[ClusterAccess], Awaitable[T]]
) -> T:
    """Run an operation in a cluster, with warnings and progress on stderr."""
    clock = SystemClock()

    async def work(client: Client) -> T:
        with progress(clock) as shown:
            access = ClusterAccess(
                cluster=cluster_of(client),
                rings=rings(client),
                leases=leases(client, labels=RING_LABEL),
                clock=clock,
                shown=shown,
            )
            return await operate(access)

    return connection.run(kubeconfig, context, work)


async def one_by_one(access: ClusterAccess, *, operations: Iterable[Operate]) -> Outcome:
    """Run all operations; an error of one operation does not stop the next one."""
    reports, errors = list[OperationReport](), list[SharderError]()
    for operate in operations:
        try:
            reports.append(await operate(access))
        except SharderError as error:
            errors.append(error)
    return Outcome(tuple(reports), tuple(errors))


async def cordon(
    access: ClusterAccess, *, ring: str, shard: str, dry_run: bool
) -> OperationReport:
    """Keep new objects away from a shard.

    Raises:
        ConfigError: there is no such ring or shard.
    """

    def edit_of(view: View, _lease: Lease) -> Edit[Lease]:
        warnings = [f"{problem}: new objects wait" for problem in _no_other_shard(view, shard)]
        if _is_evacuating(view, shard):
            warnings.append(
                f'{shard} is still being evacuated; run "sharder uncordon" to end that'
            )
        return _lease_edit(
            view,
            Operation.CORDON,
            {CORDONED_ANNOTATION: "true"},
            done=f"{shard} {{is_}} cordoned: it keeps its objects and gets no new ones",
            already=f"{shard} is already cordoned",
            warnings=warnings,
        )

    return await _write_lease(access, ring, shard, edit_of, dry_run=dry_run)


async def uncordon(
    access: ClusterAccess, *, ring: str, shard: str, dry_run: bool
) -> OperationReport:
    """Let a shard get objects again, whether it was cordoned or evacuated.

    Raises:
        ConfigError: there is no such ring or shard.
    """

    def edit_of(view: View, lease: Lease) -> Edit[Lease]:
        stops = lease.metadata.annotation(EVACUATE_ANNOTATION) == EVACUATE_ON_STOP
        return _lease_edit(
            view,
            Operation.UNCORDON,
            {CORDONED_ANNOTATION: None, EVACUATE_ANNOTATION: None},
            done=f"{shard} {{is_}} uncordoned: it gets new objects",
            already=f"{shard} is already uncordoned",
            warnings=[
                f"{shard} evacuates itself before it stops, and restores the annotation while it "
                "runs"
            ]
            * stops,
        )

    return await _write_lease(access, ring, shard, edit_of, dry_run=dry_run)


async def evacuate(
    access: ClusterAccess, *, ring: str, shard: str, dry_run: bool
) -> OperationReport:
    """Mark a shard for evacuation; `sharder.cli.evacuation` waits until it has no objects.

    Raises:
        ConfigError: there is no such ring or shard.
    """

    def edit_of(view: View, _lease: Lease) -> Edit[Lease]:
        warnings = [f"{problem}: its objects stay" for problem in _no_other_shard(view, shard)]
        if ShardName(shard) not in view.snapshot.members.available:
            warnings.append(
                f"{shard} is not available; when it is back it gets no objects until "
                '"sharder uncordon"'
            )
        elif view.snapshot.ring.spec.movement.paused:
            warnings.append(f'movement of {ring} is paused; run "sharder resume" to continue')
        return _lease_edit(
            view,
            Operation.EVACUATE,
            {EVACUATE_ANNOTATION: "true"},
            done=f"{shard} {{is_}} marked for evacuation: it gets no new objects",
            already=f"{shard} is already marked for evacuation",
            warnings=warnings,
        )

    return await _write_lease(access, ring, shard, edit_of, dry_run=dry_run)


async def pause(access: ClusterAccess, *, ring: str, dry_run: bool) -> OperationReport:
    """Stop the drains of a ring.

    Raises:
        ConfigError: there is no such ring.
    """
    return await _set_paused(
        access,
        ring,
        Operation.PAUSE,
        done=f"{ring} {{is_}} paused: no objects are drained; those whose shard is gone are still "
        "reassigned",
        already=f"{ring} is already paused",
        dry_run=dry_run,
    )


async def resume(access: ClusterAccess, *, ring: str, dry_run: bool) -> OperationReport:
    """End a pause.

    Raises:
        ConfigError: there is no such ring.
    """
    return await _set_paused(
        access,
        ring,
        Operation.RESUME,
        done=f"{ring} {{is_}} resumed: objects move to where they belong",
        already=f"{ring} is not paused",
        dry_run=dry_run,
    )


async def _set_paused(
    access: ClusterAccess,
    ring: str,
    operation: Operation,
    *,
    done: str,
    already: str,
    dry_run: bool,
) -> OperationReport:
    async def attempt() -> OperationReport:
        current = (await view_of(access.cluster, ring_named(ring))).snapshot.ring
        edit: Edit[ControllerRing] = Edit(
            ring=current.name,
            operation=operation,
            resource=RINGS.id,
            field=MOVEMENT,
            wanted={"paused": operation is Operation.PAUSE},
            done=done,
            already=already,
        )
        return await carry_out(access.rings, current, edit, dry_run=dry_run)

    return await retry_on_conflict(attempt, access.shown.warn)


async def _write_lease(
    access: ClusterAccess,
    ring: str,
    shard: str,
    edit_of: Callable[[View, Lease], Edit[Lease]],
    *,
    dry_run: bool,
) -> OperationReport:
    async def attempt() -> OperationReport:
        view = await view_of(access.cluster, ring_named(ring))
        lease = lease_of(view.snapshot, shard)
        return await carry_out(access.leases, lease, edit_of(view, lease), dry_run=dry_run)

    return await retry_on_conflict(attempt, access.shown.warn)


def _lease_edit(
    view: View,
    operation: Operation,
    wanted: Mapping[str, FieldValue],
    *,
    done: str,
    already: str,
    warnings: list[str],
) -> Edit[Lease]:
    return Edit(
        ring=view.snapshot.name,
        operation=operation,
        resource=LEASES.id,
        field=ANNOTATIONS,
        wanted=wanted,
        done=done,
        already=already,
        warnings=tuple(warnings),
    )


def others_accept(view: View, shard: str) -> bool:
    """Return whether another shard of the ring accepts objects."""
    members = view.snapshot.members
    others = members.available - {ShardName(shard)}
    return any(not members.shards[name].set_aside for name in others)


def _no_other_shard(view: View, shard: str) -> list[str]:
    """Return the warning that no other shard accepts objects, or an empty list."""
    is_last = not others_accept(view, shard)
    return [f"no other shard of {view.snapshot.name} accepts objects"] if is_last else []


def _is_evacuating(view: View, shard: str) -> bool:
    current = view.snapshot.members.shards.get(ShardName(shard))
    return current is not None and current.evacuating
