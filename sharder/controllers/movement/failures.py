"""Back off objects that could not be written, and report them.

An object that a policy rejects, or whose label another webhook removes, blocks neither its ring
nor other objects (docs/protocol.md, "Moving objects").  A quota or a webhook can reject every
write in a namespace.  Then one object is tried from time to time, instead of all, and when it is
written all others are tried at once.
"""

import logging
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import Final

from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.table import State
from sharder.controllers.ports import BACKOFF, Ports
from sharder.controllers.scope import ObjectKey, Part
from sharder.core.api.meta import PartialObject, is_older
from sharder.core.errors import ApiError, Forbidden, InvalidObject, Rejected, Unavailable
from sharder.core.names import GroupResource, RingName, owner_label
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import Troubled

IN_A_ROW: Final = 5
"""Failures in a row, of several objects, after which a part backs off together."""

PROBE_SECONDS: Final = 8.0
"""Longest time between two writes to such a part."""

MAX_TIMES: Final = 3
"""Failures in a row after which a parent no longer waits for a child: about 10 s."""

REPEAT_SECONDS: Final = 60.0
"""Seconds between two log lines about objects of one resource that fail in the same way."""

WRITE_FAILED, LABEL_REMOVED = "ShardWriteFailed", "ShardLabelRemoved"
"""Reasons of Events."""

_log = logging.getLogger(__name__)


class LabelReverted(Rejected):
    """The API server accepted our write, but the label is missing: another webhook removed it."""


@dataclass(slots=True)
class _Part:
    """A part, some of whose objects could not be written."""

    failing: int = 0
    """Objects whose last write failed."""
    in_a_row: int = 0
    """Failures since an object of the part was last written."""
    probe_at: float = -inf
    """When the next write is tried."""

    @property
    def rejects_all(self) -> bool:
        """Whether probably no object of the part can be written."""
        return self.in_a_row >= IN_A_ROW and self.failing > 1


class Failures:
    """The failures in a row and the back-off of each object, and of parts that reject all."""

    def __init__(self, ports: Ports, pending: HandoverQueue) -> None:
        """`pending` gets the objects to retry."""
        self._ports = ports
        self._clock = ports.clock
        self._pending = pending
        self._table = pending.table
        self._parts: dict[Part, _Part] = {}
        self._forbidden: dict[ObjectKey, str] = {}
        """Why we have no right to write objects, the first ones first."""
        self._logged = defaultdict[tuple[Part, type[Exception]], float](lambda: -inf)
        """When each type of error was last logged."""

    def __contains__(self, key: ObjectKey) -> bool:
        return self._table.get(key).failures > 0

    def wait(self, key: ObjectKey) -> float:
        """Return for how many seconds the object still backs off, or its whole part."""
        part, record = self._parts.get(key.part), self._table.get(key)
        until = record.not_before if record.failures else -inf
        if part is not None and part.rejects_all:
            until = max(until, part.probe_at)
        return max(0.0, until - self._clock.monotonic())

    def is_stubborn(self, key: ObjectKey) -> bool:
        """Return whether so many writes in a row failed that the next one will probably fail.

        A child that cannot be written must not leave its parent unassigned for ever.
        """
        return self._table.get(key).failures >= MAX_TIMES

    def apart(self, snapshot: RingSnapshot) -> Troubled | None:
        """Return the ring's controlled objects that cannot be written, None if there are none."""
        apart = [
            f"{resource} {ref}"
            for resource, role in snapshot.roles.items()
            if role is Role.CONTROLLED
            for ref in self._table.within(Part(snapshot.name, resource), State.FAILING)
        ]
        return Troubled(count=len(apart), first=min(apart)) if apart else None

    def problem(self, ring: RingName) -> str | None:
        """Return, for each resource, the first object that we have no right to write."""
        problems = dict[GroupResource, str]()
        for key, why in self._forbidden.items():
            if key.ring == ring:
                problems.setdefault(key.resource, f"cannot write {key.resource}: {why}")
        return "; ".join(problems[resource] for resource in sorted(problems)) or None

    async def failed(
        self, key: ObjectKey, obj: PartialObject, error: ApiError | InvalidObject
    ) -> None:
        """Retry the object after as long again as it has failed by now.

        A try before that changes nothing: children of a parent that moves often are tried often.
        Each reason is reported once, as an Event on the object, until a write succeeds; a busy
        server is reported only after two failures in a row.
        """
        ring, resource, _ = key
        self._ports.metrics.counts["object_failures_total"].add(ring, *resource)
        if not self._table.enter(key, State.FAILING):
            return
        record, part = self._table.record(key), self._parts.setdefault(key.part, _Part())
        part.failing += not record.failures
        part.in_a_row += 1
        meta, unassigned = obj.metadata, record.states.get(State.UNASSIGNED)
        failing, now = record.states[State.FAILING], self._clock.monotonic()
        had_owner = meta.label(owner_label(ring))
        if had_owner and unassigned and is_older(meta.resource_version, than=unassigned.version):
            # It was released meanwhile, so a write had its effect.
            record.failures, record.states[State.FAILING] = 0, failing._replace(since=now)
        seconds = record.not_before - now if record.failures else 0.0
        if seconds <= 0:
            record.failures += 1
            lasted = now - record.states[State.FAILING].since
            seconds = BACKOFF.again(lasted, self._ports.rng)
        if part.rejects_all and part.probe_at <= now:
            seconds = min(seconds, PROBE_SECONDS)
            part.probe_at = now + seconds
        self._pending.retry(key, seconds)
        self._note_rights(key, error)
        if self._ports.stands_by:
            return
        self._log_failure(key, error)
        if isinstance(error, Unavailable) and record.failures == 1:
            return  # it might pass soon, and the Event would get no answer either
        reason = LABEL_REMOVED if isinstance(error, LabelReverted) else WRITE_FAILED
        if reason not in record.reported:
            record.reported |= {reason}
            message = f"cannot write the labels of ring {ring}: {error}"
            await self._ports.recorder.tell(obj, reason, message)

    def written(self, key: ObjectKey) -> None:
        """Record that the object was written, so that others of its part can be written too."""
        part = self._parts.get(key.part)
        if part is not None and part.rejects_all:
            self.forgive(key.part)
            self._ports.on_written(key.part)
        if part is not None:
            part.in_a_row = 0

    def forgive(self, part: Part) -> None:
        """End the back-offs of a part that can be read or written again.

        They are tried by the pass that follows.
        """
        for _, record in self._table.of(part):
            if record.failures:
                record.not_before = -inf
        for each, known in self._parts.items():
            if part.includes(each):
                known.in_a_row = 0

    def over(self, key: ObjectKey) -> None:
        """Record that the object was written, or needs no write."""
        record = self._table.get(key)
        if not record.failures:
            return
        self._note_rights(key, None)
        record.failures, record.not_before, record.reported = 0, -inf, frozenset()
        self._parts[key.part].failing -= 1
        if not self._parts[key.part].failing:
            del self._parts[key.part]
        self._table.leave(key, State.FAILING)
        if not self._table.count(key.ring, State.FAILING, key.resource):
            logged = [of for of in self._logged if of[0] == key.part.whole]
            if logged:
                fields = {"ring": key.ring, "why": str(key.resource)}
                _log.info("objects can be moved again", extra=fields)
            for of in logged:
                del self._logged[of]

    def forget(self, whole: Part) -> None:
        """Forget a resource that was removed from the ring."""
        for ref in self._table.within(whole, State.FAILING):
            self.over(whole.key(ref))

    def _log_failure(self, key: ObjectKey, error: ApiError | InvalidObject) -> None:
        """Log the first object of a resource that fails this way, and one each minute."""
        now, of = self._clock.monotonic(), (key.part.whole, type(error))
        if now - self._logged[of] >= REPEAT_SECONDS:
            self._logged[of] = now
            failing = self._table.count(key.ring, State.FAILING, key.resource)
            fields = {
                "ring": key.ring,
                "object": f"{key.resource} {key.ref}",
                "error": str(error),
                "why": f"failing objects: {failing}",
            }
            _log.warning("cannot move objects", extra=fields)

    def _note_rights(self, key: ObjectKey, error: ApiError | InvalidObject | None) -> None:
        """Record whether we have the right to write an object."""
        was_forbidden = key in self._forbidden
        if isinstance(error, Forbidden):
            self._forbidden.setdefault(key, str(error))
        else:
            self._forbidden.pop(key, None)
        if was_forbidden != (key in self._forbidden):
            self._ports.on_change(key.ring)
