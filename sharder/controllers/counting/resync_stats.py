"""Count what a pass over a ring does."""

from datetime import datetime

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import LastResync
from sharder.core.errors import Conflict
from sharder.core.movement.step import Assign, Drain, Keep, Step
from sharder.core.ring.snapshot import RingSnapshot


class ResyncStats:
    """Counts the steps of a pass."""

    def __init__(self) -> None:
        self.fault: str | None = None
        """The first error of the ring's strategy."""
        self.failures = 0
        """The objects that could not be written."""
        self._assigned = self._moved = self._drained = self._conflicts = 0

    def note(self, step: Step) -> None:
        """Note the error of the strategy, if there is one."""
        if isinstance(step, Keep) and step.fault:
            self.fault = self.fault or step.why

    def carried_out(self, snapshot: RingSnapshot, obj: PartialObject, step: Step) -> None:
        """Count a written step; `obj` is the object before the write."""
        match step:
            case Assign():
                had_owner = snapshot.owner_of(obj) is not None
                self._moved += had_owner
                self._assigned += not had_owner
            case Drain():
                self._drained += 1
            case _:
                pass

    def failed(self, error: Exception) -> None:
        """Count an object that could not be written."""
        self.failures += 1
        self._conflicts += isinstance(error, Conflict)

    def report(self, *, time: datetime, seconds: float) -> LastResync:
        """Return the report of the pass, which ended at `time` after `seconds`."""
        return LastResync(
            time=to_the_second(time),
            duration_seconds=round(seconds, 3),
            assigned=self._assigned,
            moved=self._moved,
            drained=self._drained,
            conflicts=self._conflicts,
        )
