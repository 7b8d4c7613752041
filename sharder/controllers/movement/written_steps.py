"""Count each written step, and measure how long objects have no live owner.

An object has no live owner from the acknowledgement of its drain, or from the end of its shard,
until its new owner is written.  Only a process that saw the beginning measures the time.
"""

import logging
from collections import Counter, defaultdict
from typing import Final

from sharder.controllers.movement.failures import LabelReverted
from sharder.controllers.movement.table import State, Table
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey
from sharder.core.api.meta import PartialObject
from sharder.core.errors import Conflict
from sharder.core.movement.release import UNKNOWN, Release, fingerprint
from sharder.core.movement.step import Assign, Drain, Send, Step
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role

_log = logging.getLogger(__name__)

ENDED_SECONDS: Final = 600.0
"""How long an end is remembered: an object that is on the shard later was put there since."""

DRAINED, LOST = "drained", "lost"
"""Why an object had no owner; values of the label `reason`."""


class WrittenSteps:
    """Gets each step right after its write."""

    def __init__(self, ports: Ports, table: Table) -> None:
        """`table` has the releases."""
        self._ports = ports
        self._table = table
        self.totals = defaultdict[RingName, Counter[str]](Counter)
        """How many main objects of each ring were assigned, moved and drained, and how many writes
        failed, since its last pass began."""
        self.faults: dict[RingName, str] = {}
        """The first error of each ring's strategy since then, or in the pass before."""
        self._failing = set[RingName]()
        """The rings whose strategy has failed since then."""

    def begin(self, ring: RingName) -> None:
        """Count from zero, because a pass begins."""
        self.totals.pop(ring, None)
        self._failing.discard(ring)

    def at_fault(self, ring: RingName, why: str) -> None:
        """Report the first error of a ring's strategy: each object can cause another one."""
        if ring not in self._failing:
            self._failing.add(ring)
            self.faults[ring] = why
            self._ports.on_change(ring)

    def passed(self, ring: RingName) -> None:
        """End the error of a strategy that has not failed in a whole pass."""
        if ring not in self._failing:
            self.faults.pop(ring, None)

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self.begin(ring)
        self.passed(ring)

    def failed(self, ring: RingName, error: Exception) -> None:
        """Count a write that was given up."""
        self.totals[ring]["failed"] += 1
        self.totals[ring]["conflicts"] += isinstance(error, Conflict)

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
        is_main = snapshot.roles[key.resource] is not Role.CONTROLLED
        release, totals = self._table.get(key).release, self.totals[snapshot.name]
        last = snapshot.owner_of(before) or (release.last_of(before) if release else None)
        if is_main and isinstance(step, Assign | Send):
            totals["moved"] += snapshot.owner_of(before) is not None
        if isinstance(step, Assign):
            counts["movements_total"].add(snapshot.name, *key.resource)
            if is_main:
                totals["assigned"] += last is None
                self._note_assigned(snapshot, key, last, step.shard)
        elif isinstance(step, Send):
            meta = result.metadata
            proof = fingerprint(meta, snapshot)
            release = Release(last or UNKNOWN, meta.resource_version, proof, is_sent=True)
            self._table.record(key).release = release
        elif isinstance(step, Drain):
            totals["drained"] += 1
            counts["drains_total"].add(snapshot.name, *key.resource)
        fields = {"ring": snapshot.name, "object": str(result.metadata.ref), "step": repr(step)}
        _log.debug("wrote step", extra=fields)

    def _note_assigned(
        self, snapshot: RingSnapshot, key: ObjectKey, last: ShardName | None, shard: ShardName
    ) -> None:
        seen, now = (
            self._table.get(key).states.get(State.UNASSIGNED),
            self._ports.clock.monotonic(),
        )
        handover = self._ports.metrics.times["handover_seconds"]
        membership = self._ports.cache.membership
        ended = None if last is None else membership.last_worked(snapshot.name, last)
        if ended is not None and now - ended < ENDED_SECONDS:
            handover.observe(now - ended, key.ring, LOST)
        elif last is not None and seen is not None:
            handover.observe(now - seen.since, key.ring, DRAINED)
        if last != shard:
            self._ports.on_assigned(key.ring, last, shard)
        self._table.settle(key)
        current = self._ports.cache.snapshot(key.ring)
        if current is not None and shard not in current.members.available:
            self._ports.resync_ring(key.ring)  # the pass after its end can have missed this write


def _missing(snapshot: RingSnapshot, result: PartialObject, step: Step) -> str:
    """Return the part of a step that the response does not show, empty if it shows all."""
    match step:
        case Assign(shard) if snapshot.owner_of(result) != shard:
            return f"label {snapshot.owner_label}"
        case Drain() if not snapshot.is_draining(result):
            return f"label {snapshot.drain_label}"
        case Send(shard) if snapshot.direction_of(result) != shard:
            return f"annotation {snapshot.next_annotation}"
        case Send() if snapshot.owner_of(result) is not None:
            return f"removal of the label {snapshot.owner_label}"
        case _:
            return ""
