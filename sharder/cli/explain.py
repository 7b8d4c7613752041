"""`sharder explain`: the placement and the next step of one object."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import View, objects_of, view_of
from sharder.cli.lookup import find
from sharder.cli.objects import state_and_since
from sharder.cli.reports import ApartView, Explanation, PlacementView, ShardView
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.diagnosis.advice import advice
from sharder.core.errors import NotFound
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import demand_of
from sharder.core.movement.planner import Owners
from sharder.core.movement.step import Action
from sharder.core.names import ObjectRef, ShardName, pin_label
from sharder.core.placement.distribution import Distribution
from sharder.core.preview.balance import balanced, is_rebalanced
from sharder.core.preview.observe import states_of
from sharder.core.preview.plan import (
    Planned,
    distribution_of,
    plan_object,
    plan_ring,
    why,
)
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.phases import ShardPhase

_UNAVAILABLE: Final[Mapping[Standing, str]] = {
    Standing.LEAVING: "its Lease is invalid, so it gets no new objects",
    Standing.MISSING: "it does not hold its Lease, or another shard has the same name",
    Standing.GONE: "it has released or lost its Lease",
}
"""Why an unavailable shard cannot get an object."""

_PAUSED: Final = 'movement is paused; run "sharder resume" to continue'

_STANDSTILL: Final = "until the rollout ends, no object is drained for the strategy or for balance"


async def explain(cluster: Cluster, *, ring: str, resource: str, name: str) -> Explanation:
    """Read one object, and the controller of a controlled object, and plan the object.

    With a strategy that sticks, all main objects of the ring are read and counted.  If the ring is
    rebalanced, all controlled objects are read too, because their load counts.

    Raises:
        ConfigError: the ring, its resource or the object does not exist.
    """
    view = await view_of(cluster, ring)
    snapshot = view.snapshot
    served, obj = await find(cluster, snapshot, resource, name)
    role, rebalance = snapshot.roles[served.id], None
    if role is not Role.CONTROLLED and snapshot.selects(obj) and is_rebalanced(snapshot):
        planned, rebalance = await _balanced(cluster, snapshot, obj, role)
    else:
        whole, owners = await _distribution(cluster, snapshot), Owners()
        if role is Role.CONTROLLED:
            await _plan_controller(cluster, snapshot, obj, owners, whole)
        planned = plan_object(snapshot, obj, role, owners, whole)
    apart = await _apart(cluster, snapshot, obj) if role is Role.LEADING else ()
    # An object without a key waits for no shard.
    since = None if planned.key is None else state_and_since(snapshot, obj)[1]
    explained = _explained(cluster, view, served, planned, rebalance=rebalance, apart=apart)
    return explained if since is None else replace(explained, since=since.time, bound=since.bound)


async def _apart(
    cluster: Cluster, snapshot: RingSnapshot, obj: PartialObject
) -> tuple[ApartView, ...]:
    """Return the objects that `obj` controls and that are on other shards."""
    owner, apart = snapshot.owner_of(obj), list[ApartView]()
    elsewhere = snapshot.owner_label + ("" if owner is None else f"!={owner}")
    for controlled in (r for r, role in snapshot.roles.items() if role is Role.CONTROLLED):
        try:
            resource = await cluster.objects.find(controlled)
        except NotFound:
            continue
        children = cluster.objects.of(resource, elsewhere, namespace=obj.metadata.namespace)
        async for child in children.stream():
            is_own = snapshot.controller_key(child) == main_key(obj)
            if is_own and snapshot.selects(child, Role.CONTROLLED):
                apart.append(ApartView(object=main_key(child), owner=snapshot.owner_of(child)))
    return tuple(sorted(apart, key=lambda each: each.object))


async def _balanced(
    cluster: Cluster, snapshot: RingSnapshot, obj: PartialObject, role: Role
) -> tuple[Planned, str]:
    """Plan a main object together with all other objects.

    Returns its plan, and a sentence that says whether it moves for balance.
    """
    key = main_key(obj)
    listed = await objects_of(cluster, snapshot, snapshot.roles)
    others = ((its, other) for its, other in listed if main_key(other) != key)
    balance = balanced(snapshot, plan_ring(snapshot, [(role, obj), *others]))
    return next(p for p in balance.plan if p.obj is obj), balance.verdict(obj)


async def _distribution(cluster: Cluster, snapshot: RingSnapshot) -> Distribution:
    if snapshot.tally is None:
        return distribution_of(snapshot, ())
    main = [r for r, role in snapshot.roles.items() if role is not Role.CONTROLLED]
    objects = await objects_of(cluster, snapshot, main)
    return distribution_of(snapshot, (obj for _, obj in objects))


async def _plan_controller(
    cluster: Cluster,
    snapshot: RingSnapshot,
    obj: PartialObject,
    owners: Owners,
    whole: Distribution,
) -> None:
    """Plan the controller of `obj`, so that `owners` knows the shard of the controller."""
    reference = obj.metadata.controller
    if reference is None:
        return
    for main, role in snapshot.roles.items():
        if role is not Role.LEADING or main.group != reference.group:
            continue
        resource = await cluster.objects.find(main)
        if resource.kind == reference.kind:
            namespace = obj.metadata.namespace if resource.namespaced else ""
            try:
                controller = await cluster.objects.of(resource).get(
                    ObjectRef(namespace, reference.name)
                )
            except NotFound:
                return
            if snapshot.selects(controller):
                plan_object(snapshot, controller, role, owners, whole)
            else:
                owners.leave(snapshot, controller)


def _explained(
    cluster: Cluster,
    view: View,
    resource: Resource,
    planned: Planned,
    *,
    rebalance: str | None,
    apart: tuple[ApartView, ...],
) -> Explanation:
    snapshot, obj = view.snapshot, planned.obj
    states = states_of(snapshot.members, view.leases, cluster.now)
    is_controlled = planned.role is Role.CONTROLLED
    in_scope = snapshot.selects(obj, planned.role)
    outside = f"the ring does not select its namespace {obj.metadata.namespace}"
    if not snapshot.matches(obj, planned.role):
        outside = "the ring does not select its labels"
    outside += ", so it gets no other shard"
    return Explanation(
        ring=snapshot.name,
        strategy=snapshot.ring.spec.placement.strategy,
        resource=str(resource.id),
        object=main_key(obj),
        key=planned.key,
        controller=snapshot.controller_key(obj) if is_controlled else None,
        owner=planned.current,
        owner_state=None if planned.current is None else states.get(planned.current),
        draining=snapshot.is_draining(obj),
        since=None,
        bound=None,
        wanted=planned.desired if in_scope else None,
        action=planned.action if in_scope else Action.NONE,
        to=planned.to if in_scope else planned.current,
        why=why(planned) if in_scope else outside,
        advice=advice(snapshot, planned) if in_scope else None,
        rebalance=rebalance,
        movement=_PAUSED if snapshot.ring.spec.movement.paused else None,
        rollout=_rollout(snapshot),
        evacuation=_evacuation(snapshot, planned.current),
        placement=None if is_controlled or not in_scope else _placement(snapshot, obj, states),
        apart=apart,
        mistakes=(*snapshot.reader.invalid_annotations(obj), *_stray_pin(snapshot, obj, states)),
    )


def _stray_pin(
    snapshot: RingSnapshot, obj: PartialObject, states: Mapping[ShardName, ShardPhase]
) -> list[str]:
    pin = snapshot.reader.pin_of(obj)
    if pin is None or pin in states:
        return []
    label = pin_label(snapshot.name)
    return [f"the label {label} has no effect: {snapshot.name} has no shard {pin}"]


def _rollout(snapshot: RingSnapshot) -> str | None:
    newest = snapshot.placer.layout.newest
    if newest is None:
        return None
    return f"shards of several revisions are available, {newest} is the newest; {_STANDSTILL}"


def _evacuation(snapshot: RingSnapshot, owner: ShardName | None) -> str | None:
    shard = None if owner is None else snapshot.placer.layout.by_name.get(owner)
    if shard is None or not shard.evacuating:
        return None
    return f"{owner} is being evacuated: all its objects are drained"


def _placement(
    snapshot: RingSnapshot, obj: PartialObject, states: Mapping[ShardName, ShardPhase]
) -> PlacementView:
    """Return the shard that the strategy would choose now, with a remark on every shard."""
    members, demand = snapshot.members, demand_of(snapshot, obj)
    answer = snapshot.placer.explain(demand, snapshot.counts)
    others = {
        name: _UNAVAILABLE[members.standing_of(name)]
        for name in states
        if name not in members.available
    }
    rejected = answer.rejected | others
    return PlacementView(
        pin=demand.pin,
        region=demand.region or None,
        zone=demand.zone or None,
        pool=demand.pool or None,
        group=snapshot.reader.group_in_words(obj),
        chosen=answer.choice.shard,
        reason=answer.choice.reason or None,
        shards=tuple(
            ShardView(
                name=name,
                state=states.get(name),
                rejected=rejected.get(name),
                remark=answer.remarks.get(name),
            )
            for name in sorted(states.keys() | members.available)
        ),
    )
