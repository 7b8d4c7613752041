"""A ring in memory, whose objects take the leader's own steps until nothing changes.

Every shard acknowledges its drains at once, and no other client writes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from sharder.core.api.meta import Json, PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import choose, choose_anew, excess_of
from sharder.core.movement.patches import acknowledge
from sharder.core.movement.planner import PAUSED, keep_priority_of, plan_displaced, plan_main
from sharder.core.movement.step import Assign, Disown, Drain, Keep, Step, Withdraw
from sharder.core.movement.step_patch import patch_of
from sharder.core.names import ShardName
from sharder.core.placement.ranking import LowestPriorities
from sharder.core.placement.tally import Tally
from sharder.core.plan.observe import is_unowned
from sharder.core.ring.snapshot import RingSnapshot, Role

_PART: Final = "plan"
"""The only part of a tally that is filled from a list."""

_ROUNDS: Final = 100
"""Limit on the rounds; a round moves each object at most twice, and two or three are enough unless
pinned objects wait for each other."""

_IN_PLACE: Final = Keep("in place")


class _Changes(msgspec.Struct, frozen=True):
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}


class _Patch(msgspec.Struct, frozen=True):
    metadata: _Changes


class Action(StrEnum):
    """A step as a plan shows it."""

    KEEP = "keep"
    """It stays where it is."""
    ASSIGN = "assign"
    """It is assigned at once."""
    DRAIN = "drain"
    """It moves after its shard has released it."""
    RELABEL = "relabel"
    """It moves after its parent."""
    NONE = "none"
    """It has no shard and gets none."""


@dataclass(slots=True)
class Planned:
    """One object: as it is, as the plan leaves it, and the steps between."""

    obj: PartialObject
    role: Role
    key: str | None
    """The key by which it is placed; None for a controlled resource without a controller."""
    current: ShardName | None
    to: ShardName | None
    """Its shard in the end."""
    now: PartialObject
    step: Step = _IN_PLACE
    """The first step that changes it, else why it stays."""
    last: Step = _IN_PLACE
    is_displaced: bool = False
    """Whether it left a shard because that exceeded its ceiling."""
    why: str = ""
    """The reason for the first step, for people."""
    reason: str = ""
    """Why no available shard has it in the end, if so."""

    @property
    def action(self) -> Action:
        """What the plan does with the object."""
        if self.to == self.current or isinstance(self.step, Disown):
            return Action.NONE if self.to is None else Action.KEEP
        if self.role is Role.CONTROLLED and self.current is not None:
            return Action.RELABEL
        return Action.ASSIGN if isinstance(self.step, Assign) else Action.DRAIN


def fill(tally: Tally, snapshot: RingSnapshot, objects: Iterable[PartialObject]) -> None:
    """Count objects as they are."""
    tally.clear()
    for obj in objects:
        tally.see(_PART, snapshot.identity_of(obj), snapshot.entry_of(obj))
    tally.synced = True


class State:
    """The main objects in scope of a ring; if one is given twice, the last one counts."""

    def __init__(
        self, snapshot: RingSnapshot, objects: Iterable[tuple[Role, PartialObject]]
    ) -> None:
        """Begin with the objects as they are; the tally of `snapshot` does not change."""
        once = {main_key(obj): planned(snapshot, obj, role) for role, obj in objects}
        self.objects = {key: once[key] for key in sorted(once)}
        self.at = snapshot
        """The ring with its objects as they are now."""
        if snapshot.tally is not None:
            tally = Tally()
            self.at = replace(snapshot, tally=tally)
            fill(tally, snapshot, (each.obj for each in self.objects.values()))

    def settle(self) -> None:
        """Take steps until nothing changes."""
        for _ in range(_ROUNDS):
            advanced = [self._take(each, self._next(each)) for each in self.objects.values()]
            displaced = [self._take(each, step) for each, step in self._displaced()]
            if not any(advanced) and not any(displaced):
                return

    def _take(self, each: Planned, step: Step) -> bool:
        """Write a step and its shard's answer to it; return whether the object changes."""
        each.last, at = step, self.at
        if each.now is each.obj:
            each.step = step
        before, body = each.now, patch_of(at, each.now, step)
        if body is not None:
            each.now = _patched(each.now, body)
        if at.is_draining(each.now) and self._answers(at.owner_of(each.now)):
            labels = {"owner_label": at.owner_label, "drain_label": at.drain_label}
            each.now = _patched(each.now, acknowledge(each.now.metadata, **labels))
        each.to = at.owner_of(each.now)
        if at.tally is not None and each.now is not before:
            at.tally.see(_PART, at.identity_of(each.now), at.entry_of(each.now))
        return each.now is not before

    def _answers(self, owner: ShardName | None) -> bool:
        """Return whether a shard acknowledges a drain."""
        standing = None if owner is None else self.at.members.standing_of(owner)
        return standing in {Standing.AVAILABLE, Standing.LEAVING}

    def _next(self, each: Planned) -> Step:
        """Return the leader's step; a released object without a direction is no new object."""
        at, obj = self.at, each.now
        if obj is each.obj or each.to or at.direction_of(obj):
            return plan_main(at, obj)
        choice = choose_anew(at, obj)
        return Keep(choice.reason, choice.fault) if choice.shard is None else Assign(choice.shard)

    def _displaced(self) -> Iterator[tuple[Planned, Step]]:
        """Yield the objects that leave shards above their ceilings."""
        at = self.at
        for shard, many in excess_of(at).items():
            leaving = LowestPriorities[Planned](many)
            for each in self.objects.values():
                if each.to == shard and at.entry_of(each.now).stays:
                    leaving.offer(keep_priority_of(at, each.now, shard), each)
            for each in leaving.items():
                step = plan_displaced(at, each.now, shard)
                each.is_displaced |= isinstance(step, Drain)
                yield each, step


def planned(snapshot: RingSnapshot, obj: PartialObject, role: Role) -> Planned:
    """Return an object that stays where it is."""
    owner = snapshot.owner_of(obj)
    return Planned(obj, role, snapshot.key_of(obj, role), owner, owner, obj)


def _patched(obj: PartialObject, body: Json) -> PartialObject:
    """Return the object after a merge patch of its labels and annotations."""
    changes = msgspec.convert(body, _Patch).metadata
    meta = obj.metadata
    labels = {**(meta.labels or {}), **changes.labels}
    annotations = {**(meta.annotations or {}), **changes.annotations}
    changed = msgspec.structs.replace(
        meta,
        labels={k: v for k, v in labels.items() if v is not None},
        annotations={k: v for k, v in annotations.items() if v is not None},
    )
    return msgspec.structs.replace(obj, metadata=changed)


def advice(snapshot: RingSnapshot, planned: Planned) -> str | None:
    """Return the next step of a person, None if there is none to make."""
    owner, ring = planned.current, snapshot.name
    if planned.key is None:
        return (
            "nothing: only objects with a controller get a shard; if it was restored from a "
            "backup, let its parent adopt it"
        )
    standing = Standing.GONE if owner is None else snapshot.members.standing_of(owner)
    if standing is Standing.GONE:
        return (
            f"start shards, or change what the object asks for: sharder shards {ring}"
            if is_unowned(snapshot, planned.to)
            else f"nothing: the leader assigns it within seconds; if not: sharder check {ring}"
        )
    if standing is Standing.MISSING:
        return f"wait: after two Lease durations {owner} has surely stopped, or is back"
    if isinstance(planned.step, Withdraw):
        return "nothing: the leader withdraws the drain within seconds"
    if snapshot.is_draining(planned.obj):
        return (
            f"wait until {owner} has ended its work on it and removes both labels; if that takes "
            f"long, read its log, and see what else it drains: sharder objects {ring} --draining "
            f"--shard {owner}"
        )
    if planned.action in {Action.KEEP, Action.NONE}:
        waits = planned.step == PAUSED and choose(snapshot, planned.obj).shard not in {None, owner}
        return f"let it move: sharder resume {ring}" if waits else None
    return f"nothing: the leader moves it within its limits; preview all: sharder plan {ring}"
