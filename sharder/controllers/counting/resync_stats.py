"""Count what a pass over a ring finds and does."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from sharder.core.api.meta import PartialObject
from sharder.core.errors import Conflict
from sharder.core.leases.membership import Standing
from sharder.core.movement.step import Assign, Drain, Keep, Step
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import ObjectStats, ResyncReport


class ResyncResult(NamedTuple):
    """The result of a whole pass."""

    stats: ObjectStats
    """The counts of the listed objects; with a strategy that sticks, these are not all objects of
    the ring."""
    report: ResyncReport


class ResyncStats:
    """Counts main objects and the steps that were written."""

    def __init__(self, snapshot: RingSnapshot) -> None:
        self.fault: str | None = None
        """The first error of the ring's strategy."""
        self._snapshot = snapshot
        self._by_shard = Counter[ShardName]()
        self._unassigned = self._unowned = self._draining = 0
        self._assigned = self._moved = self._drained = self._conflicts = self._failed = 0

    @property
    def objects(self) -> int:
        """The number of counted objects."""
        return self._unassigned + self._by_shard.total()

    def note(self, obj: PartialObject, step: Step) -> None:
        """Count an object where it is, unless it is assigned now: then it is listed again."""
        if isinstance(step, Assign):
            return
        if isinstance(step, Keep) and step.fault:
            self.fault = self.fault or step.why
        self._count(obj)

    def _count(self, obj: PartialObject) -> None:
        owner = self._snapshot.owner_of(obj)
        self._draining += self._snapshot.is_draining(obj)
        if owner is None:
            self._unassigned += 1
        else:
            self._by_shard[owner] += 1
        works = owner and self._snapshot.members.standing_of(owner) is Standing.AVAILABLE
        self._unowned += not works

    def left(self, obj: PartialObject) -> None:
        """Count an object whose assignment could not be written."""
        self._count(obj)

    def carried_out(self, obj: PartialObject, step: Step) -> None:
        """Count a written step; `obj` is the object before the write."""
        match step:
            case Assign():
                had_owner = self._snapshot.owner_of(obj) is not None
                self._moved += had_owner
                self._assigned += not had_owner
            case Drain():
                self._drained += 1
            case _:
                pass

    def failed(self, error: Exception) -> None:
        """Count an object that could not be written."""
        self._failed += 1
        self._conflicts += isinstance(error, Conflict)

    def result(self, *, time: datetime, seconds: float) -> ResyncResult:
        """Return all counts; the pass ended at `time` after `seconds`."""
        stats = ObjectStats(
            objects=self.objects,
            unassigned=self._unassigned,
            draining=self._draining,
            by_shard=dict(self._by_shard),
            has_room=None,
            unowned=self._unowned,
        )
        report = ResyncReport(
            time=time,
            seconds=seconds,
            assigned=self._assigned,
            moved=self._moved,
            drained=self._drained,
            conflicts=self._conflicts,
            failed=self._failed,
        )
        return ResyncResult(stats, report)
