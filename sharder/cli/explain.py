"""`sharder explain` and `sharder plan`: the next step of one object, or of all objects."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import View, objects_of, view_of
from sharder.cli.lookup import find
from sharder.cli.objects import state_and_since
from sharder.cli.reports import Explanation, PlacementView, ShardView
from sharder.cli.tables import PAUSED
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import choose, demand_of
from sharder.core.names import ObjectRef, ShardName, pin_label
from sharder.core.plan.observe import Since, states_of
from sharder.core.plan.plan import PlanReport, plan_ring, report
from sharder.core.plan.state import Action, Planned, advice
from sharder.core.plan.what_if import AS_IT_IS, WhatIf
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.phases import WHY_MISSING, ShardPhase

_UNAVAILABLE: Final[Mapping[Standing, str]] = {
    Standing.LEAVING: "its Lease is invalid, so it gets no new objects",
    Standing.MISSING: WHY_MISSING,
    Standing.GONE: "it has released or lost its Lease",
}
"""Why an unavailable shard cannot get an object."""

_ROLLOUT: Final = (
    "shards of several revisions are available, {} is the newest; until the rollout ends, no "
    "object is drained for the strategy or for balance"
)

_EVACUATION: Final = "{} is being evacuated: all its objects are drained"


async def explain(cluster: Cluster, *, ring: str, target: str) -> Explanation:
    """Read one object, and the controller of a controlled object, and plan the object.

    With a strategy that sticks, all main objects of the ring are read and counted.

    Raises:
        ConfigError: the ring, its resource or the object does not exist.
    """
    view = await view_of(cluster, ring)
    snapshot = view.snapshot
    served, obj = await find(cluster, snapshot, target)
    role = snapshot.roles[served.id]
    plan = plan_ring(snapshot, [(role, obj), *await _others(cluster, snapshot, obj, role)])
    planned = next(planned for planned in plan.objects if planned.obj is obj)
    # An object without a key waits for no shard.
    since = None if planned.key is None else state_and_since(snapshot, obj)[1]
    return _explained(cluster, view, served, planned, since)


async def plan(cluster: Cluster, *, name: str, what_if: WhatIf = AS_IT_IS) -> PlanReport:
    """Plan all objects of a ring.

    Raises:
        ConfigError: there is no such ring, or `what_if` is not possible.
    """
    view = await view_of(cluster, name, what_if)
    snapshot = view.snapshot
    planned = plan_ring(snapshot, [each async for each in objects_of(cluster, snapshot)])
    states = states_of(snapshot.members, view.leases, cluster.now)
    return report(snapshot, planned, states, is_exact=what_if.is_exact)


async def _others(
    cluster: Cluster, snapshot: RingSnapshot, obj: PartialObject, role: Role
) -> list[tuple[Role, PartialObject]]:
    """Return the objects that the plan of `obj` depends on."""
    found = list[tuple[Role, PartialObject]]()
    if snapshot.tally is not None:
        mains = objects_of(cluster, snapshot, without=Role.CONTROLLED)
        found = [each async for each in mains]
    if role is Role.CONTROLLED:
        found += await _controller(cluster, snapshot, obj)
    return [(its, other) for its, other in found if main_key(other) != main_key(obj)]


async def _controller(
    cluster: Cluster, snapshot: RingSnapshot, obj: PartialObject
) -> list[tuple[Role, PartialObject]]:
    """Return the controller of `obj`, in scope or not, if the ring shards its resource."""
    reference, main = obj.metadata.controller, snapshot.controller_resource(obj)
    if reference is None or main is None or snapshot.roles[main] is not Role.LEADING:
        return []
    resource = await cluster.objects.find(main)
    ref = ObjectRef(obj.metadata.namespace if resource.namespaced else "", reference.name)
    with suppress(NotFound):
        return [(Role.LEADING, await cluster.objects.of(resource).get(ref))]
    return []


def _explained(
    cluster: Cluster,
    view: View,
    resource: Resource,
    planned: Planned,
    since: Since | None,
) -> Explanation:
    snapshot, obj = view.snapshot, planned.obj
    states = states_of(snapshot.members, view.leases, cluster.now)
    is_controlled = planned.role is Role.CONTROLLED
    in_scope = snapshot.selects(obj, planned.role)
    wanted, owner, layout = planned.to, planned.current, snapshot.placer.layout
    if in_scope and not is_controlled and planned.to == owner:
        wanted = choose(snapshot, obj).shard
    shard = None if owner is None else layout.by_name.get(owner)
    return Explanation(
        ring=snapshot.name,
        strategy=snapshot.ring.spec.placement.strategy,
        resource=str(resource.id),
        object=main_key(obj),
        key=planned.key,
        controller=snapshot.controller_key(obj) if is_controlled else None,
        owner=owner,
        owner_state=None if owner is None else states.get(owner),
        draining=snapshot.is_draining(obj),
        since=since and since.time,
        bound=since and since.bound,
        wanted=wanted if in_scope else None,
        action=planned.action if in_scope else Action.NONE,
        to=planned.to,
        why=planned.why,
        advice=advice(snapshot, planned) if in_scope else None,
        movement=f"movement {PAUSED}" if snapshot.ring.spec.movement.paused else None,
        rollout=None if layout.newest is None else _ROLLOUT.format(layout.newest),
        evacuation=_EVACUATION.format(owner) if shard is not None and shard.evacuating else None,
        placement=None if is_controlled or not in_scope else _placement(snapshot, obj, states),
        mistakes=(*snapshot.reader.invalid_annotations(obj), *_stray_pin(snapshot, obj, states)),
    )


def _stray_pin(
    snapshot: RingSnapshot, obj: PartialObject, states: Mapping[ShardName, ShardPhase]
) -> list[str]:
    pin, label = snapshot.reader.pin_of(obj), pin_label(snapshot.name)
    is_stray = pin is not None and pin not in states
    return [f"the label {label} has no effect: {snapshot.name} has no shard {pin}"] * is_stray


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
