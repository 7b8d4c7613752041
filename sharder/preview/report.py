"""What a plan means for people and programs: each object's way, and counts per shard.

Pure.  The steps are the planner's, this module only words them; the structs are what
`sharder plan -o json` and `sharder explain -o json` print (docs/cli.md).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from sharder.api.meta import PartialObject
from sharder.keys import main_key
from sharder.leases import ShardState
from sharder.names import RingName, ShardName
from sharder.plan import (
    Assign,
    Drain,
    Keep,
    Relabel,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.planner import Owners, plan_controlled, plan_main, wanted_of
from sharder.preview.census import imbalance, is_unowned
from sharder.snapshot import RingSnapshot, Role

STRATEGY: Final = "ConsistentHash"


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
    """It has no shard and gets none: nothing controls it, or no shard is available."""


_ACTIONS: Final[Mapping[type[Step], Action]] = {
    Assign: Action.ASSIGN,
    Relabel: Action.RELABEL,
    Drain: Action.DRAIN,
}


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object is, and where the plan brings it."""

    object: str
    """`group/Kind/namespace/name`; group and namespace may be empty."""
    origin: ShardName | None = msgspec.field(name="from")
    to: ShardName | None
    action: Action


class ShardLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A shard and what it holds once the plan is carried out."""

    name: ShardName
    state: ShardState
    objects: int
    load: dict[str, int] | None = None
    """None: the strategy does not look at load."""
    capacity: dict[str, int] | None = None
    """None: the strategy knows no capacity."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The plan in numbers.

    Imbalance is the fullest available shard's objects over their mean: 1.0 is perfect, None where
    there are no objects on available shards.
    """

    objects: int
    """Those in scope that a shard should own."""
    moves: int
    """Those that the plan brings to another shard, or to their first."""
    imbalance_before: float | None
    imbalance_after: float | None


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for all objects of a ring; assignments are in the order of their objects' names."""

    ring: RingName
    strategy: str
    shards: tuple[ShardLoad, ...]
    assignments: tuple[Assignment, ...]
    unassigned: tuple[str, ...]
    """Objects on which no shard works once the plan is carried out."""
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One object and its step."""

    obj: PartialObject
    key: str | None
    """What it is placed by; None for an object of a controlled resource that nothing controls."""
    current: ShardName | None
    desired: ShardName | None
    step: Step
    """What the resync does now."""
    intent: Step
    """The same, but a drain for an object whose shard has been asked to let go already."""

    @property
    def action(self) -> Action:
        """What happens to the object."""
        staying = Action.NONE if self.current is None else Action.KEEP
        return _ACTIONS.get(type(self.intent), staying)

    @property
    def to(self) -> ShardName | None:
        """The shard that the object is on when its step has been taken to its end."""
        if isinstance(self.intent, Assign | Relabel):
            return self.intent.shard
        return self.desired if isinstance(self.intent, Drain) else self.current


def plan_object(snapshot: RingSnapshot, obj: PartialObject, role: Role, owners: Owners) -> Planned:
    """Plan one object; call it for all leading objects before the controlled ones."""
    if role is Role.CONTROLLED:
        desired = owners.shard_for(snapshot, obj)
        step = intent = plan_controlled(snapshot, obj, owners)
    else:
        desired = wanted_of(snapshot, obj)
        step = plan_main(snapshot, obj)
        owners.note(snapshot, obj, step)
        position = replace(position_of(snapshot, obj, desired), draining=False)
        intent = next_step(position, snapshot.members) if isinstance(step, Keep) else step
    return Planned(
        obj=obj,
        key=snapshot.key_of(obj, role),
        current=snapshot.owner_of(obj),
        desired=desired,
        step=step,
        intent=intent,
    )


def report(
    snapshot: RingSnapshot, plan: Iterable[Planned], states: Mapping[ShardName, ShardState]
) -> PlanReport:
    """Return the report of a plan; `states` has the shards to be listed."""
    ordered = sorted(plan, key=lambda planned: main_key(planned.obj))
    counted = [planned for planned in ordered if planned.key is not None]
    before = Counter(planned.current for planned in counted if planned.current is not None)
    after = Counter(planned.to for planned in counted if planned.to is not None)
    available = snapshot.members.available
    return PlanReport(
        ring=snapshot.name,
        strategy=STRATEGY,
        shards=tuple(
            ShardLoad(name=name, state=states[name], objects=after[name])
            for name in sorted(states)
        ),
        assignments=tuple(
            Assignment(
                object=main_key(planned.obj),
                origin=planned.current,
                to=planned.to,
                action=planned.action,
            )
            for planned in ordered
        ),
        unassigned=tuple(
            main_key(planned.obj) for planned in counted if is_unowned(snapshot, planned.to)
        ),
        summary=Summary(
            objects=len(counted),
            moves=sum(planned.current != planned.to for planned in counted),
            imbalance_before=imbalance(before, available),
            imbalance_after=imbalance(after, available),
        ),
    )


def why(planned: Planned) -> str:
    """Return in words why the object's step is what it is."""
    step = planned.step
    if isinstance(step, Keep):
        return step.why
    if isinstance(step, Withdraw):
        return "it belongs where it is: the request to let go is taken back"
    if isinstance(step, Drain):
        owner = f"{step.shard} may be working on it and has to let go first"
        return f"it belongs on {planned.desired}; {owner}"
    if isinstance(step, Relabel):
        return f"it follows the object that controls it to {step.shard}"
    lost = "it has no shard" if planned.current is None else f"{planned.current} is gone"
    return f"{lost}, and it belongs on {step.shard}"
