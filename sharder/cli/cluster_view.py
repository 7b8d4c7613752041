"""Read the rings and shards of a cluster for the commands, without writes or watches."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from sharder.cli.cluster import Cluster
from sharder.cli.reports import RingRow, RingsReport, ShardRow, ShardsReport
from sharder.config.strategies import custom_of
from sharder.controllers.ring_store import learn
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.errors import ApiError, ConfigError, NotFound
from sharder.core.leases.membership import ring_of
from sharder.core.leases.shard import OBJECTS, Shard, invalid_annotations, shard_of
from sharder.core.leases.state import is_held
from sharder.core.names import RING_LABEL, GroupResource, RingName, ShardName
from sharder.core.plan.observe import (
    TOTALS,
    RingTotals,
    members_of,
    not_ready,
    selected_namespaces,
    state_in,
)
from sharder.core.plan.what_if import AS_IT_IS, WhatIf
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import READY, UNKNOWN, condition_of
from sharder.core.texts import plain
from sharder.core.validation import refusals


class View(NamedTuple):
    """One ring and its Leases, as they were read."""

    snapshot: RingSnapshot
    leases: tuple[Lease, ...]
    """Sorted by name and namespace."""


async def rings(cluster: Cluster) -> RingsReport:
    """Count the objects of all rings."""
    every = await _all_rings(cluster)
    spaces = [namespace async for namespace in cluster.namespaces.stream()]
    all_leases = [lease async for lease in cluster.leases.stream()]
    views = [await _view(cluster, ring, all_leases, spaces) for ring in every]
    return RingsReport(rings=tuple([await _row(cluster, view.snapshot) for view in views]))


async def shards(cluster: Cluster, *, name: str) -> ShardsReport:
    """Count the objects of a ring's shards."""
    view = await view_of(cluster, name)
    counted = await count(cluster, view.snapshot)
    return ShardsReport(
        ring=view.snapshot.name,
        paused=view.snapshot.ring.spec.movement.paused,
        problem=_problem(view.snapshot),
        shards=tuple(_shard(lease, view.snapshot, counted, cluster.now) for lease in view.leases),
        **counted.totals,
    )


async def view_of(cluster: Cluster, name: str, what_if: WhatIf = AS_IT_IS) -> View:
    """Read a ring, its Leases and the namespaces.

    Raises:
        ConfigError: the ring does not exist (the message names the existing rings) or cannot be
            decoded, or `what_if` is not possible.
    """
    ring = named({each.name: each for each in await _all_rings(cluster)}, name)
    if isinstance(ring, UnreadableRing):
        raise ConfigError(f"ControllerRing {name} {unreadable(ring)}")
    spaces = [namespace async for namespace in cluster.namespaces.stream()]
    stored = [lease async for lease in cluster.leases.stream(f"{RING_LABEL}={name}")]
    assumed = what_if.leases(ring, stored, cluster.now)
    return await _view(cluster, what_if.ring(ring), assumed, spaces)


def named(existing: Mapping[RingName, ControllerRing], name: str) -> ControllerRing:
    """Return the ring of this name; `ConfigError` if there is none."""
    try:
        return existing[RingName(name)]
    except KeyError:
        names = ", ".join(sorted(existing)) or "none"
        raise ConfigError(f"ControllerRing {name} not found; existing rings: {names}") from None


async def objects_of(
    cluster: Cluster, snapshot: RingSnapshot, labels: str = "", *, without: Role | None = None
) -> AsyncGenerator[tuple[Role, PartialObject], None]:
    """Yield the objects in scope of a ring, or those of them that a label selector selects.

    Resources of the role `without` are not read.
    """
    for resource, role in snapshot.roles.items():
        if role is not without:
            served = await cluster.objects.find(resource)
            async for obj in cluster.objects.of(served).stream(labels):
                if snapshot.selects(obj, role):
                    yield role, obj


async def count(cluster: Cluster, snapshot: RingSnapshot, labels: str = "") -> RingTotals:
    """Count the objects of a ring, or those that a label selector selects."""
    counted = RingTotals(snapshot)
    async for role, obj in objects_of(cluster, snapshot, labels):
        counted.count(obj, role)
    return counted


async def _all_rings(cluster: Cluster) -> list[ControllerRing]:
    try:
        every = [ring async for ring in cluster.rings.stream()]
    except NotFound as error:
        raise ConfigError("the cluster does not serve ControllerRings: install the CRD") from error
    return sorted(every, key=lambda ring: ring.name)


async def _view(
    cluster: Cluster, ring: ControllerRing, given: Iterable[Lease], spaces: list[PartialObject]
) -> View:
    of_ring = [lease for lease in given if ring_of(lease) == ring.name]
    served = dict[GroupResource, Resource]()
    await learn(cluster.objects, (ring,), served)
    return View(
        snapshot=build(
            ring,
            members=members_of(ring, of_ring),
            namespaces=selected_namespaces(ring, spaces),
            served=served.values(),
            custom=custom_of(ring.spec.placement.strategy),
        ),
        leases=tuple(sorted(of_ring, key=lambda lease: lease.metadata.ref[::-1])),
    )


async def _row(cluster: Cluster, snapshot: RingSnapshot) -> RingRow:
    problem = _problem(snapshot)
    counts: dict[str, int | None] = dict.fromkeys(TOTALS)
    try:
        if not isinstance(snapshot.ring, UnreadableRing):
            counts.update((await count(cluster, snapshot)).totals)
    except ApiError as error:
        problem = "; ".join(filter(None, (str(error), problem)))
    ready = condition_of(snapshot.ring.status, READY)
    return RingRow(
        name=snapshot.name,
        strategy=snapshot.ring.spec.placement.strategy,
        resources=tuple(sorted(map(str, snapshot.roles))),
        shards=len(snapshot.members.validity.valid),
        available_shards=len(snapshot.members.available),
        ready=UNKNOWN if ready is None else ready.status,
        paused=snapshot.ring.spec.movement.paused,
        problem=problem,
        **counts,
    )


def unreadable(ring: UnreadableRing) -> str:
    """Return why the ring cannot be decoded, and what to do."""
    return f"cannot be decoded by this version: {ring.problem}; correct it or upgrade"


def _problem(snapshot: RingSnapshot) -> str | None:
    """Return why the ring does not work: its condition Ready, else the errors of its spec."""
    if isinstance(snapshot.ring, UnreadableRing):
        return unreadable(snapshot.ring)
    refused = refusals(snapshot.ring, snapshot.placer.layout.custom)
    return not_ready(snapshot.ring) or "; ".join(map(str, refused)) or None


def _shard(lease: Lease, snapshot: RingSnapshot, counted: RingTotals, now: datetime) -> ShardRow:
    name = ShardName(lease.metadata.name)
    time = lease.spec.renew_time if is_held(lease) else None
    renewed = parse_time(time)
    problem = snapshot.members.validity.problems.get(lease.metadata.ref)
    shard, objects = shard_of(lease), counted.by_shard[name]
    return ShardRow(
        name=name,
        namespace=lease.metadata.namespace,
        state=state_in(snapshot.members, lease, now),
        available=problem is None and name in snapshot.members.available,
        cordoned=shard.cordoned,
        evacuating=shard.evacuating,
        region=shard.region,
        zone=shard.zone,
        pool=shard.pool,
        weight=shard.weight,
        capacity=_capacity(snapshot, shard),
        objects=objects.objects,
        children=objects.children,
        draining=counted.draining[name],
        renew_time=time,
        renewed_seconds_ago=None if renewed is None else round((now - renewed).total_seconds(), 1),
        problem=problem,
        mistakes=tuple(invalid_annotations(lease)),
    )


def _capacity(snapshot: RingSnapshot, shard: Shard) -> dict[str, str]:
    """Return the shard's capacity; `objects` is limited by the ring's `perShardCapacity`."""
    ceiling = snapshot.placer.layout.declared_by(shard)
    limit = {} if ceiling is None else {OBJECTS: Decimal(ceiling)}
    return {name: plain(amount) for name, amount in sorted({**shard.capacity, **limit}.items())}
