"""Decide what the leader does to one object: assign, drain, send, disown or keep it.

Controlled objects follow the owner label of their parent (docs/protocol.md, "Moving objects").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import (
    choose,
    choose_anew,
    expected_of,
    is_overfull,
    objection,
    reservation_on,
)
from sharder.core.movement.step import (
    Assign,
    Disown,
    Drain,
    Keep,
    Send,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.core.names import ShardName
from sharder.core.placement.ranking import KeepPriority
from sharder.core.placement.tally import Reservation
from sharder.core.ring.snapshot import RingSnapshot, Role

PAUSED: Final = Keep("movement is paused")
AWAITED: Final = Keep(
    "its shard is back, but its controlled objects were moved: the shard releases it first"
)


class Parents:
    """The main objects of one ring whose shard is not the one that their key or count implies.

    They are recorded while leading resources are planned, and used for controlled resources.  They
    are valid only with the snapshot of that plan.
    """

    def __init__(self) -> None:
        self._shards: dict[str, ShardName | None] = {}

    def note(self, snapshot: RingSnapshot, obj: PartialObject) -> None:
        """Remember where a main object is, for its controlled objects.

        One without a working shard is between two shards: its controlled objects move with it.
        One that is out of scope keeps its label, so its shard might work on it.  If it has none,
        it is not counted, so its children go to the shard with the highest score for its key.
        """
        key, shard = main_key(obj), snapshot.owner_of(obj)
        expected = _expected(snapshot, obj)
        if not snapshot.selects(obj):
            follows = snapshot.tally is None
            shard = shard or (expected if follows else snapshot.placer.highest(key))
        elif is_stranded(snapshot, obj):
            shard = None
        self._shards.pop(key, None)
        if shard != expected:
            self._shards[key] = shard

    def shard_for(self, snapshot: RingSnapshot, child: PartialObject) -> ShardName | None:
        """Return the shard where a controlled object belongs now: the one of its controller.

        The result is None without a controller, if that is between two shards, or if no shard is
        available.
        """
        leader = snapshot.controller_key(child)
        if leader in self._shards:
            return self._shards[leader]
        return expected_of(snapshot, child)


def plan_main(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object of a main resource."""
    owner = snapshot.owner_of(obj)
    might_work = owner is not None and not _is_gone(snapshot, owner)
    if might_work and snapshot.is_recalled(obj):
        return AWAITED
    if might_work and snapshot.ring.spec.movement.paused:
        return Withdraw() if snapshot.is_draining(obj) else PAUSED
    choice = choose(snapshot, obj)
    if choice.shard is None:
        return Keep(choice.reason, choice.fault)
    step = next_step(position_of(snapshot, obj, choice.shard), snapshot.members)
    is_stale = owner is not None and snapshot.has_next(obj) and not snapshot.is_draining(obj)
    # Left by a client that removed the drain label: it would count as a release.
    return Withdraw() if is_stale and isinstance(step, Keep) else step


def plan_handover(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object of a leading resource whose children have to move first.

    It is sent first, unless it is on its way already: without owner, to the shard in its `next`,
    or without `next` to the one that a strategy without counts always chooses.
    """
    step = plan_main(snapshot, obj)
    if not isinstance(step, Assign):
        return step
    ways = {step.shard, None} if snapshot.tally is None else {step.shard}
    is_sent = snapshot.owner_of(obj) is None and snapshot.direction_of(obj) in ways
    return step if is_sent else Send(step.shard)


def plan_displaced(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> Step:
    """Return the step for an object of a shard that exceeds its ceiling."""
    if snapshot.owner_of(obj) != shard or not snapshot.entry_of(obj).stays:
        return Keep("it no longer counts against its shard's ceiling")
    if snapshot.ring.spec.movement.paused:
        return PAUSED
    if not is_overfull(snapshot, shard):
        return Keep("its shard has room for it again")
    # After its release, the pin would keep the object from all other shards.
    target = choose_anew(snapshot, obj).shard if snapshot.reader.pin_of(obj) else None
    return Drain(shard, None if target == shard else target)


def plan_directed(
    snapshot: RingSnapshot, obj: PartialObject, source: ShardName, target: ShardName
) -> Step:
    """Return the step that moves an object from one available shard to another."""
    available, entry = snapshot.members.available, snapshot.entry_of(obj)
    if entry.shard != source or snapshot.reader.pin_of(obj) == source or not entry.stays:
        return Keep("it has been moved, pinned or deleted since")
    if not {source, target} <= available:
        return Keep("one of the two shards is no longer available")
    if snapshot.ring.spec.movement.paused:
        return PAUSED
    why = objection(snapshot, obj, target)
    return Drain(source, target) if why is None else Keep(why)


def keep_priority_of(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> KeepPriority:
    """Return the priority of a main object to stay on `shard`, which has too many objects."""
    key = snapshot.key_of(obj, Role.MAIN) or ""
    is_pinned = snapshot.reader.pin_of(obj) == shard
    return KeepPriority(is_pinned, snapshot.placer.score(key, shard), main_key(obj))


def reservation_of(snapshot: RingSnapshot, obj: PartialObject, step: Step) -> Reservation | None:
    """Return how a main object counts after its step, None if nothing changes."""
    if isinstance(step, Assign):
        return reservation_on(snapshot, obj, step.shard)
    if isinstance(step, Drain):
        return reservation_on(snapshot, obj, step.shard, draining=True, heading=step.to)
    if isinstance(step, Send):
        return reservation_on(snapshot, obj, None, heading=step.shard)
    owner = snapshot.owner_of(obj)
    if isinstance(step, Withdraw) and owner is not None:
        return reservation_on(snapshot, obj, owner)
    return None


@contextmanager
def reserving(
    snapshot: RingSnapshot, obj: PartialObject, step: Step, role: Role
) -> Iterator[None]:
    """Count a main object as it will be after the body has written the step; not if that fails."""
    tally = snapshot.tally
    reservation = None if role is Role.CONTROLLED else reservation_of(snapshot, obj, step)
    if tally is None or reservation is None:
        yield
        return
    tally.assume(reservation)
    try:
        yield
    except BaseException:
        tally.give_back(reservation)
        raise


def plan_owned(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object of a main resource that had an owner when it was listed.

    If its shard has released it since then, or is gone, the hand-over moves its controlled objects
    first.
    """
    if snapshot.owner_of(obj) is None or (snapshot.leads(obj) and is_stranded(snapshot, obj)):
        return Keep("its shard has released it, or is gone; its controlled objects move first")
    return plan_main(snapshot, obj)


def plan_controlled(snapshot: RingSnapshot, obj: PartialObject, parents: Parents) -> Step:
    """Return the step for an object of a controlled resource, after the step of its controller.

    If the shard of its controller gets no new objects, it waits, because both will move together.
    """
    if snapshot.controller_key(obj) is None:
        # The owner label was forged, or was set before the object lost its controller.
        return Keep("it has no controller") if snapshot.owner_of(obj) is None else Disown()
    desired = parents.shard_for(snapshot, obj)
    step = next_step(position_of(snapshot, obj, desired), snapshot.members, Role.CONTROLLED)
    if not isinstance(step, Assign):
        return step
    if snapshot.members.standing_of(step.shard) is not Standing.AVAILABLE:
        return Keep("the shard of its controller gets no new objects")
    return step


def stranded_labels(snapshot: RingSnapshot) -> str:
    """Return the labels of the objects without a working shard, as far as labels tell."""
    return f"{snapshot.owner_label} notin ({','.join(sorted(snapshot.members.available))})"


def following_labels(snapshot: RingSnapshot) -> tuple[str, ...]:
    """Return the labels of the objects that might have to leave a working shard.

    In a counted ring these are draining and pinned objects, objects of evacuating shards, and
    objects that ask for another pool, region or zone than their shard has.
    """
    owner = snapshot.owner_label
    settled = f"{owner} in ({','.join(sorted(snapshot.members.available))})"
    if snapshot.tally is None:
        return (settled,)
    asked = [f"{settled},{key}" for key in (snapshot.drain_label, snapshot.pin_label)]
    if evacuating := sorted(snapshot.placer.layout.evacuating):
        asked.append(f"{owner} in ({','.join(evacuating)})")
    for there, labels in snapshot.reader.misplaced_on(snapshot.placer.layout.available):
        asked.append(f"{owner} in ({','.join(sorted(there))}),{labels}")
    return tuple(asked)


def is_stranded(snapshot: RingSnapshot, obj: PartialObject) -> bool:
    """Return whether the object has no owner, or one that is gone.

    `stranded_labels` finds such objects.  One that has just lost its owner can still be in work:
    `release.is_surely_free` says when it is not.
    """
    owner = snapshot.owner_of(obj)
    return owner is None or _is_gone(snapshot, owner)


def _is_gone(snapshot: RingSnapshot, shard: ShardName) -> bool:
    return snapshot.members.standing_of(shard) is Standing.GONE


def _expected(snapshot: RingSnapshot, obj: PartialObject) -> ShardName | None:
    """Return the shard that a main object's key or count implies."""
    if snapshot.tally is not None:
        return snapshot.tally.shard_of(snapshot.identity_of(obj))
    return snapshot.wanted(snapshot.key_of(obj, Role.MAIN))
