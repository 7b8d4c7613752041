"""Plan all objects of a ring at one moment, by the leader's own decisions.

A strategy that follows decides object by object.  One that sticks decides by where all the others
are, so the whole ring is counted first; the plan then shows what it comes to if nobody else
writes: what shards have too many is let go, and placed together with what has no shard.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.membership import Members
from sharder.core.movement.desired import choose, directed_of
from sharder.core.movement.planner import Owners, plan_controlled, plan_main, stands_still
from sharder.core.movement.step import (
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
from sharder.core.placement.distribution import Distribution, Placed, distribute
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Tally
from sharder.core.preview.observe import is_unowned
from sharder.core.ring.snapshot import RingSnapshot, Role

_PART: Final = "plan"
"""The one part of a tally that is filled from a list."""

_NO_OWNER: Final = "no shard works on the object that controls it"

_NOBODY: Final = Distribution(choices={}, displaced=frozenset())


class Action(StrEnum):
    """What happens to an object."""

    KEEP = "keep"
    """It stays where it is."""
    ASSIGN = "assign"
    """It is given to a shard at once: nobody works on it."""
    DRAIN = "drain"
    """Its shard is or has been asked to let go; it moves when that has happened."""
    RELABEL = "relabel"
    """A controlled object: it is moved after its owner."""
    NONE = "none"
    """It has no shard and gets none: nothing controls it, or no shard may have it."""


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
    """What it is placed by; None for an object of a controlled resource that nothing controls."""
    current: ShardName | None
    choice: Choice
    """Where it belongs, or why nowhere."""
    displaced: bool = False
    """Whether its shard has too many: it is let go, wherever it goes then."""
    balance: str = ""
    """What it brings to move it for balance, for people; empty: it is not moved for that."""
    step: Step
    """What the resync does now."""
    intent: Step
    """The same, but a drain for an object whose shard has been asked to let go already.

    After `followed`, of a controlled object what brings it to where its owner goes.
    """

    @property
    def desired(self) -> ShardName | None:
        """The shard that the object belongs on."""
        return self.choice.shard

    @property
    def action(self) -> Action:
        """What happens to the object."""
        staying = Action.NONE if self.to is None else Action.KEEP
        return _ACTIONS.get(type(self.intent), staying)

    @property
    def to(self) -> ShardName | None:
        """The shard that the object is on when its step has been taken to its end."""
        if isinstance(self.intent, Assign | Relabel):
            return self.intent.shard
        if isinstance(self.intent, Release):
            return None
        return self.desired if isinstance(self.intent, Drain) else self.current


def plan_ring(
    snapshot: RingSnapshot, objects: Iterable[tuple[Role, PartialObject]]
) -> list[Planned]:
    """Return the plan for all objects in scope, which may come in any order.

    The tally of a strategy that sticks is filled with them, as they are.
    """
    ordered = sorted(objects, key=lambda pair: pair[0] is Role.CONTROLLED)
    main = [obj for role, obj in ordered if role is not Role.CONTROLLED]
    whole, owners = distribution_of(snapshot, main), Owners()
    return [plan_object(snapshot, obj, role, owners, whole) for role, obj in ordered]


def followed(snapshot: RingSnapshot, plan: Sequence[Planned]) -> list[Planned]:
    """Return the plan with each controlled object where its owner is when all is carried out.

    What is not planned with its owner stays as it is.
    """
    goals = {main_key(p.obj): p.to for p in plan if p.role is not Role.CONTROLLED}
    return [_follow(snapshot, planned, goals) for planned in plan]


def _follow(
    snapshot: RingSnapshot, planned: Planned, goals: Mapping[str, ShardName | None]
) -> Planned:
    leader = snapshot.controller_key(planned.obj) if planned.role is Role.CONTROLLED else None
    goal = goals.get(leader or "")
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
    whole: Distribution = _NOBODY,
) -> Planned:
    """Plan one object; call it for all leading objects before the controlled ones.

    A main object that is not part of `whole` is judged by itself.
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
    if stands_still(snapshot, current):
        step = intent = plan_main(snapshot, obj)
    else:
        step = _step(position, choice, snapshot.members, displaced=displaced)
        asked_anew = replace(position, draining=False)
        intent = step
        if isinstance(step, Keep):
            intent = _step(asked_anew, choice, snapshot.members, displaced=displaced)
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
    """Return where each main object belongs, given all that there are.

    It is empty for a strategy that follows, which decides about each by itself.  The tally of one
    that sticks is filled.
    """
    if snapshot.tally is None:
        return _NOBODY
    objects = tuple(main)
    entries = {snapshot.identity_of(obj): snapshot.entry_of(obj) for obj in objects}
    snapshot.tally.replace(_PART, entries)
    snapshot.tally.synced = True
    paused = snapshot.ring.spec.movement.paused
    return distribute((_placed(snapshot, o) for o in objects), snapshot.placer, paused=paused)


def tally_after(snapshot: RingSnapshot, plan: Iterable[Planned]) -> Tally | None:
    """Return the counts once the plan is carried out; None for a strategy that follows."""
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
    """Return in words why the object's step is what it is."""
    step = planned.step
    if isinstance(step, Keep):
        return step.why
    if isinstance(step, Withdraw):
        return "it belongs where it is: the request to let go is taken back"
    if isinstance(step, Release):
        return "nothing controls it, so it is no shard's: its owner label is removed"
    if isinstance(step, Drain):
        return _why_drained(planned, step.shard)
    if isinstance(step, Relabel):
        return f"it follows the object that controls it to {step.shard}"
    lost = "it has no shard" if planned.current is None else f"{planned.current} is gone"
    return f"{lost}, and it belongs on {step.shard}"


def _why_drained(planned: Planned, owner: ShardName) -> str:
    if planned.displaced:
        goal = f"it goes to {planned.desired}" if planned.desired else planned.choice.reason
        return f"{owner} has more objects than it may have, and has to let go of it; {goal}"
    goal = f"it belongs on {planned.desired}"
    if planned.balance:
        goal = f"{planned.balance}, so it goes to {planned.desired}"
    return f"{goal}; {owner} may be working on it and has to let go first"


def _step(position: Position, choice: Choice, members: Members, *, displaced: bool) -> Step:
    if choice.shard is not None:
        return next_step(position, members)
    if displaced and position.current is not None and not position.draining:
        return Drain(position.current)
    return Keep(choice.reason)


def _placed(snapshot: RingSnapshot, obj: PartialObject) -> Placed:
    """Return the object as it stands; one that has been sent to a shard counts there already."""
    owner, directed = snapshot.owner_of(obj), directed_of(snapshot, obj)
    is_sent = directed is not None and choose(snapshot, obj).shard == directed
    return Placed(
        snapshot.demand_of(obj, directed if is_sent else owner),
        draining=snapshot.is_draining(obj) and not is_sent,
        deleting=obj.metadata.deletion_timestamp is not None,
    )
