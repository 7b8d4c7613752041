"""The main objects of a ring in memory, moved by the leader's own steps until nothing changes.

Every shard acknowledges its drains at once, and no other client writes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import choose_anew, excess_of
from sharder.core.movement.planner import keep_priority_of, plan_displaced, plan_main
from sharder.core.movement.step import Assign, Drain, Keep, Step, Withdraw
from sharder.core.names import ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.displacement import LowestPriorities
from sharder.core.ring.snapshot import RingSnapshot

_PART: Final = "plan"
"""The only part of a tally that is filled from a list."""

_ROUNDS: Final = 100
"""Limit on the rounds; a round moves each object at most twice, and two or three are enough unless
pinned objects wait for each other."""

_RELEASING: Final = frozenset({Standing.AVAILABLE, Standing.LEAVING})
"""The standings of shards that acknowledge a drain."""


@dataclass(slots=True)
class Move:
    """One object: as it was, as it is now, and the steps between."""

    before: PartialObject
    now: PartialObject
    step: Step
    """The first step that changes it, else why it stays."""
    last: Step
    changed: bool = False
    released: bool = False
    """Whether a shard has released it."""
    displaced: bool = False
    """Whether that shard exceeded its ceiling."""
    balance: str = ""
    """The gain of its move for balance, in words."""


def fill(tally: Tally, snapshot: RingSnapshot, objects: Iterable[PartialObject]) -> None:
    """Count objects as they are."""
    tally.clear()
    for obj in objects:
        tally.see(_PART, snapshot.identity_of(obj), snapshot.entry_of(obj))
    tally.synced = True


class Simulation:
    """The main objects in scope of a ring; if one is given twice, the last one counts."""

    def __init__(self, snapshot: RingSnapshot, objects: Iterable[PartialObject]) -> None:
        """Begin with the objects as they are; the tally of `snapshot` does not change."""
        once = {main_key(obj): obj for obj in objects}
        ordered = {key: once[key] for key in sorted(once)}
        start = Keep("in place")
        self.moves = {key: Move(obj, obj, start, start) for key, obj in ordered.items()}
        self.at = snapshot
        """The ring with its objects as they are now."""
        self.at = self.copied()

    def settle(self) -> None:
        """Take steps until nothing changes."""
        for _ in range(_ROUNDS):
            advanced = [self._take(move, self._next(move)) for move in self.moves.values()]
            displaced = [self._take(move, step) for move, step in self._displaced()]
            if not any(advanced) and not any(displaced):
                return

    def copied(self) -> RingSnapshot:
        """Return the ring with a tally that does not change when the objects do."""
        if self.at.tally is None:
            return self.at
        tally = Tally()
        fill(tally, self.at, (move.now for move in self.moves.values()))
        return replace(self.at, tally=tally)

    def put(self, move: Move, obj: PartialObject) -> None:
        """Let the object be as given."""
        move.now = obj
        if self.at.tally is not None:
            self.at.tally.see(_PART, self.at.identity_of(obj), self.at.entry_of(obj))

    def on(self, obj: PartialObject, owner: ShardName | None) -> PartialObject:
        """Return the object as it is once a shard owns it, or none."""
        return self._labelled(obj, owner, None)

    def _next(self, move: Move) -> Step:
        """Return the leader's step; a released object without a direction is no new object."""
        at, obj = self.at, move.now
        if not move.released or at.owner_of(obj) or at.direction_of(obj):
            return plan_main(at, obj)
        choice = choose_anew(at, obj)
        return Keep(choice.reason, choice.fault) if choice.shard is None else Assign(choice.shard)

    def _take(self, move: Move, step: Step) -> bool:
        """Carry out a step, and return whether it changes the object."""
        obj = self._after(move.now, step)
        move.last = step
        if not move.changed:
            move.step = step
        if obj is None:
            return False
        move.changed = True
        move.released |= self.at.owner_of(obj) is None
        self.put(move, obj)
        return True

    def _after(self, obj: PartialObject, step: Step) -> PartialObject | None:
        """Return the object after a step and the answer of its shard, None if nothing changes."""
        owner = self.at.owner_of(obj)
        match step:
            case Assign(shard):
                return self._labelled(obj, shard, None)
            case Withdraw():
                return self._labelled(obj, owner, None)
            case Drain(_, to):
                return self._labelled(obj, None, to)
            case Keep() if owner is not None and self.at.is_draining(obj):
                if self.at.members.standing_of(owner) in _RELEASING:
                    return self._labelled(obj, None, self.at.direction_of(obj))
            case _:
                pass
        return None

    def _displaced(self) -> Iterator[tuple[Move, Step]]:
        """Yield the objects that leave shards above their ceilings."""
        at = self.at
        for shard, many in excess_of(at).items():
            leaving = LowestPriorities[Move](many)
            for move in self.moves.values():
                if at.owner_of(move.now) == shard and at.entry_of(move.now).stays:
                    leaving.offer(keep_priority_of(at, move.now, shard), move)
            for move in leaving.items():
                step = plan_displaced(at, move.now, shard)
                move.displaced |= isinstance(step, Drain)
                yield move, step

    def _labelled(
        self, obj: PartialObject, owner: ShardName | None, to: ShardName | None
    ) -> PartialObject:
        """Return the object with this owner and direction, and without a drain."""
        at, meta = self.at, obj.metadata
        labels, annotations = dict(meta.labels or {}), dict(meta.annotations or {})
        for known, key, value in (
            (labels, at.owner_label, owner),
            (labels, at.drain_label, None),
            (annotations, at.next_annotation, to),
        ):
            known.pop(key, None)
            if value is not None:
                known[key] = value
        changed = msgspec.structs.replace(meta, labels=labels, annotations=annotations)
        return msgspec.structs.replace(obj, metadata=changed)
