"""Count each written step, and measure how long objects have no live owner.

An object has no live owner from the acknowledgement of its drain, or from the end of its shard,
until its new owner is written.  Only a process that saw the beginning measures the time.
"""

import logging
from datetime import datetime
from typing import Final

from sharder.controllers.movement.failures import LabelReverted
from sharder.controllers.movement.unassigned import UNKNOWN, UnassignedObjects
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey
from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import LastResync
from sharder.core.errors import Conflict
from sharder.core.leases.membership import Standing
from sharder.core.movement.step import Assign, Drain, Keep, Relabel, Send, Step
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role

_log = logging.getLogger(__name__)

ENDED_SECONDS: Final = 600.0
"""How long an end is remembered: an object that is on the shard later was put there since."""

DRAINED, LOST = "drained", "lost"
"""Why an object had no owner; values of the label `reason`."""


class WrittenSteps:
    """Gets each step right after its write."""

    def __init__(self, ports: Ports, unassigned: UnassignedObjects) -> None:
        """`unassigned` knows who released objects."""
        self._ports = ports
        self._unassigned = unassigned

    def note(
        self,
        snapshot: RingSnapshot,
        key: ObjectKey,
        before: PartialObject,
        result: PartialObject,
        step: Step,
    ) -> None:
        """Count a step if the response shows it.

        Raises:
            LabelReverted: the response does not show the step, because another webhook reverted
                it.
        """
        self._ports.on_moved(snapshot.name)
        if missing := _missing(snapshot, result, step):
            raise LabelReverted(
                f"another webhook reverted the {missing} of {key.resource} {result.metadata.ref} "
                "during the sharder's write: check the admission webhooks and policies that "
                "change metadata"
            )
        counts = self._ports.metrics.counts
        if isinstance(step, Assign | Relabel):
            counts["movements_total"].add(snapshot.name, *key.resource)
            if snapshot.roles[key.resource] is not Role.CONTROLLED:
                self._note_assigned(snapshot, key, before, step.shard)
        elif isinstance(step, Send):
            shard = self._last(snapshot, key, before)
            self._unassigned.sent(snapshot, key, shard or UNKNOWN, result.metadata)
        elif isinstance(step, Drain):
            counts["drains_total"].add(snapshot.name, *key.resource)
        fields = {"ring": snapshot.name, "object": str(result.metadata.ref), "step": repr(step)}
        _log.debug("wrote step", extra=fields)

    def _note_assigned(
        self, snapshot: RingSnapshot, key: ObjectKey, before: PartialObject, shard: ShardName
    ) -> None:
        is_unassigned = snapshot.owner_of(before) is None
        since = self._unassigned.since(key) if is_unassigned else None
        last = self._last(snapshot, key, before)
        now, handover = (
            self._ports.clock.monotonic(),
            self._ports.metrics.times["handover_seconds"],
        )
        ended = None if last is None else self._last_worked(snapshot, last)
        if ended is not None and now - ended < ENDED_SECONDS:
            handover.observe(now - ended, key.ring, LOST)
        elif last is not None and since is not None:
            handover.observe(now - since, key.ring, DRAINED)
        if last != shard:
            self._ports.on_assigned(key.ring, last, shard)

    def _last_worked(self, snapshot: RingSnapshot, shard: ShardName) -> float | None:
        is_gone = snapshot.members.standing_of(shard) is Standing.GONE
        membership = self._ports.cache.membership
        return membership.last_worked(snapshot.name, shard) if is_gone else None

    def _last(
        self, snapshot: RingSnapshot, key: ObjectKey, before: PartialObject
    ) -> ShardName | None:
        return snapshot.owner_of(before) or self._unassigned.last(before, key)


def _missing(snapshot: RingSnapshot, result: PartialObject, step: Step) -> str:
    """Return the part of a step that the response does not show, empty if it shows all."""
    match step:
        case Assign(shard) | Relabel(shard) if snapshot.owner_of(result) != shard:
            return f"label {snapshot.owner_label}"
        case Drain() if not snapshot.is_draining(result):
            return f"label {snapshot.drain_label}"
        case Send(shard) if snapshot.direction_of(result) != shard:
            return f"annotation {snapshot.next_annotation}"
        case Send() if snapshot.owner_of(result) is not None:
            return f"removal of the label {snapshot.owner_label}"
        case _:
            return ""


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
