"""Plan all objects of a ring at one moment, with the same decisions as the leader.

A strategy that follows decides object by object.  One that sticks decides by the counts, so the
whole ring is counted first.  Then the plan shows the final state if no other client writes: excess
objects leave their shards, and are placed together with the objects without a shard.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.membership import Members
from sharder.core.movement.desired import choose, directed_of
from sharder.core.movement.planner import Owners, plan_controlled, plan_main, stands_still
from sharder.core.movement.step import (
    Action,
    Assign,
    Drain,
    Keep,
    Position,
    Relabel,
    Release,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.core.names import ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.distribution import Distribution, Placed, distribute
from sharder.core.placement.strategy import Choice
from sharder.core.preview.observe import is_unowned
from sharder.core.ring.snapshot import RingSnapshot, Role

_PART: Final = "plan"
"""The only part of the tally, which is filled from a list."""

_NO_OWNER: Final = "no shard works on its controller"

_EMPTY: Final = Distribution(choices={}, displaced=frozenset())


_ACTIONS: Final[Mapping[type[Step], Action]] = {
    Assign: Action.ASSIGN,
    Relabel: Action.RELABEL,
    Drain: Action.DRAIN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One object and its step."""

    obj: PartialObject
    role: Role
    key: str | None
    """The key by which it is placed; None for a controlled resource without a controller."""
    current: ShardName | None
    choice: Choice
    """Where the object belongs, or why there is no shard for it."""
    displaced: bool = False
    """Whether it has to leave its shard because that exceeds its ceiling."""
    balance: str = ""
    """The gain of its move for balance, in words; empty: it does not move for balance."""
    step: Step
    """The next step of the resync."""
    intent: Step
    """The same step, except that it is a drain if the object is already draining.

    After `followed`, it is the step that brings a controlled object to its controller's shard.
    """

    @property
    def desired(self) -> ShardName | None:
        """The shard on which the object belongs."""
        return self.choice.shard

    @property
    def action(self) -> Action:
        """What the plan does with the object."""
        staying = Action.NONE if self.to is None else Action.KEEP
        return _ACTIONS.get(type(self.intent), staying)

    @property
    def to(self) -> ShardName | None:
        """The shard of the object after its step, or after its drain."""
        if isinstance(self.intent, Assign | Relabel):
            return self.intent.shard
        if isinstance(self.intent, Release):
            return None
        return self.desired if isinstance(self.intent, Drain) else self.current


def plan_ring(
    snapshot: RingSnapshot, objects: Iterable[tuple[Role, PartialObject]]
) -> list[Planned]:
    """Return the plan for all objects in scope, which can be in any order.

    With a strategy that sticks, this fills the snapshot's tally with the objects as they are.
    """
    ordered = sorted(objects, key=lambda pair: pair[0] is Role.CONTROLLED)
    main = [obj for role, obj in ordered if role is not Role.CONTROLLED]
    whole, owners = distribution_of(snapshot, main), Owners()
    return [plan_object(snapshot, obj, role, owners, whole) for role, obj in ordered]


def followed(snapshot: RingSnapshot, plan: Sequence[Planned]) -> list[Planned]:
    """Return the plan with each controlled object on the final shard of its controller.

    The plan of an object whose controller is not part of the plan does not change.
    """
    goals = {main_key(p.obj): p.to for p in plan if p.role is not Role.CONTROLLED}
    return [_follow(snapshot, planned, goals) for planned in plan]


def _follow(
    snapshot: RingSnapshot, planned: Planned, goals: Mapping[str, ShardName | None]
) -> Planned:
    key = snapshot.controller_key(planned.obj) if planned.role is Role.CONTROLLED else None
    goal = goals.get(key or "")
    if goal in {None, planned.to} or goal not in snapshot.members.available:
        return planned
    if planned.current is None:
        return replace(planned, intent=Assign(goal))
    if planned.current == goal:
        return replace(planned, intent=Keep("in place"))
    return replace(planned, intent=Relabel(goal))


def plan_object(
    snapshot: RingSnapshot,
    obj: PartialObject,
    role: Role,
    owners: Owners,
    whole: Distribution = _EMPTY,
) -> Planned:
    """Plan one object; call this for all main objects before the controlled ones.

    A main object that is not part of `whole` is planned without the other objects.
    """
    key, current = snapshot.key_of(obj, role), snapshot.owner_of(obj)
    if role is Role.CONTROLLED:
        shard = owners.shard_for(snapshot, obj)
        choice = Choice(shard, _NO_OWNER if is_unowned(snapshot, shard) else "")
        step = plan_controlled(snapshot, obj, owners)
        return Planned(
            obj=obj, role=role, key=key, current=current, choice=choice, step=step, intent=step
        )
    identity = snapshot.identity_of(obj)
    choice = whole.choices.get(identity) or choose(snapshot, obj)
    displaced = identity in whole.displaced
    position = position_of(snapshot, obj, choice.shard)
    if stands_still(snapshot, current) or snapshot.is_recalled(obj):
        step = intent = plan_main(snapshot, obj)
    else:
        step = _step(position, choice, snapshot.members, displaced=displaced)
        undrained = replace(position, draining=False)
        intent = step
        if isinstance(step, Keep):
            intent = _step(undrained, choice, snapshot.members, displaced=displaced)
    owners.note(snapshot, obj, step)
    return Planned(
        obj=obj,
        role=role,
        key=key,
        current=current,
        choice=choice,
        displaced=displaced,
        step=step,
        intent=intent,
    )


def distribution_of(snapshot: RingSnapshot, main: Iterable[PartialObject]) -> Distribution:
    """Return where each main object belongs, given all main objects.

    The result is empty for a strategy that follows, which decides about each object by itself.
    For one that sticks, this fills the tally.
    """
    if snapshot.tally is None:
        return _EMPTY
    objects = tuple(main)
    snapshot.tally.clear()
    for obj in objects:
        snapshot.tally.see(_PART, snapshot.identity_of(obj), snapshot.entry_of(obj))
    snapshot.tally.synced = True
    paused = snapshot.ring.spec.movement.paused
    return distribute((_placed(snapshot, o) for o in objects), snapshot.placer, paused=paused)


def tally_after(snapshot: RingSnapshot, plan: Iterable[Planned]) -> Tally | None:
    """Return the counts after the plan; None for a strategy that follows."""
    if snapshot.tally is None:
        return None
    after = Tally()
    after.synced = True
    for planned in plan:
        if planned.role is not Role.CONTROLLED:
            entry = snapshot.entry_on(planned.obj, planned.to, draining=False)
            after.see(_PART, snapshot.identity_of(planned.obj), entry)
    return after


def why(planned: Planned) -> str:
    """Return the reason for the object's step, for people."""
    step = planned.step
    if isinstance(step, Keep):
        return step.why
    if isinstance(step, Withdraw):
        return "it belongs where it is: its drain is withdrawn"
    if isinstance(step, Release):
        return "it has no controller: its owner label is removed"
    if isinstance(step, Drain):
        return _why_drained(planned, step.shard)
    if isinstance(step, Relabel):
        return f"it follows its controller to {step.shard}"
    lost = "it has no shard" if planned.current is None else f"{planned.current} is gone"
    return f"{lost}, and it belongs on {step.shard}"


def _why_drained(planned: Planned, owner: ShardName) -> str:
    if planned.displaced:
        goal = f"it goes to {planned.desired}" if planned.desired else planned.choice.reason
        return f"{owner} exceeds its ceiling and has to release the object; {goal}"
    goal = f"it belongs on {planned.desired}"
    if planned.balance:
        goal = f"{planned.balance}, so it goes to {planned.desired}"
    return f"{goal}; {owner} might be working on it and has to release it first"


def _step(position: Position, choice: Choice, members: Members, *, displaced: bool) -> Step:
    if choice.shard is not None:
        step = next_step(position, members)
        return Keep(choice.reason) if choice.reason and isinstance(step, Keep) else step
    if displaced and position.current is not None and not position.draining:
        return Drain(position.current)
    return Keep(choice.reason)


def _placed(snapshot: RingSnapshot, obj: PartialObject) -> Placed:
    """Return the object as it is; with a valid `next`, it already counts on that shard."""
    owner, directed = snapshot.owner_of(obj), directed_of(snapshot, obj)
    is_sent = directed is not None and choose(snapshot, obj).shard == directed
    return Placed(
        snapshot.demand_of(obj, directed if is_sent else owner),
        draining=snapshot.is_draining(obj) and not is_sent,
        deleting=obj.metadata.deletion_timestamp is not None,
    )
