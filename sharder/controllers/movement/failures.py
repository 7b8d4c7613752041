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
from sharder.core.names import RingName, owner_label
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import Troubled

IN_A_ROW: Final = 5
"""Failures in a row, of several objects, after which a part backs off together."""

PROBE_SECONDS: Final = 8.0
"""Longest time between two writes to such a part."""

STUBBORN_SECONDS: Final = 2.5
"""Seconds of failing after which a parent no longer waits for a child: by the back-off a second
attempt is earlier, and a third one is not."""

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
        self._logged = defaultdict[tuple[Part, type[Exception]], float](lambda: -inf)
        """When each type of error was last logged."""

    def __contains__(self, key: ObjectKey) -> bool:
        return State.FAILING in self._table.get(key).states

    def wait(self, key: ObjectKey) -> float:
        """Return for how many seconds the object still backs off, or its whole part."""
        part, record = self._parts.get(key.part), self._table.get(key)
        until = record.not_before if State.FAILING in record.states else -inf
        if part is not None and part.rejects_all:
            until = max(until, part.probe_at)
        return max(0.0, until - self._clock.monotonic())

    def is_stubborn(self, key: ObjectKey) -> bool:
        """Return whether writes failed for so long that the next one will probably fail.

        A child that cannot be written must not leave its parent unassigned for ever.
        """
        seen = self._table.get(key).states.get(State.FAILING)
        return seen is not None and self._clock.monotonic() - seen.since >= STUBBORN_SECONDS

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
        snapshot, problems = self._ports.cache.snapshot(ring), list[str]()
        for resource in sorted(snapshot.roles) if snapshot is not None else ():
            records = (record for _, record in self._table.of(Part(ring, resource)))
            if why := next((record.forbidden for record in records if record.forbidden), ""):
                problems.append(f"cannot write {resource}: {why}")
        return "; ".join(problems) or None

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
        is_first = key not in self
        if not self._table.enter(key, State.FAILING):
            return
        record, part = self._table.record(key), self._parts.setdefault(key.part, _Part())
        part.failing += is_first
        part.in_a_row += 1
        meta, unassigned = obj.metadata, record.states.get(State.UNASSIGNED)
        failing, now = record.states[State.FAILING], self._clock.monotonic()
        had_owner = meta.label(owner_label(ring))
        if had_owner and unassigned and is_older(meta.resource_version, than=unassigned.version):
            # It was released meanwhile, so a write had its effect.
            is_first, record.states[State.FAILING] = True, failing._replace(since=now)
        seconds = 0.0 if is_first else record.not_before - now
        if seconds <= 0:
            lasted = now - record.states[State.FAILING].since
            seconds = BACKOFF.again(lasted, self._ports.rng)
        if part.rejects_all and part.probe_at <= now:
            seconds = min(seconds, PROBE_SECONDS)
            part.probe_at = now + seconds
        self._pending.retry(key, seconds)
        self._note_rights(key, str(error) if isinstance(error, Forbidden) else "")
        if self._ports.stands_by:
            return
        self._log_failure(key, error)
        if isinstance(error, Unavailable) and is_first:
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
        for ref in self._table.within(part, State.FAILING):
            self._table.record(part.key(ref)).not_before = -inf
        for each, known in self._parts.items():
            if part.includes(each):
                known.in_a_row = 0

    def over(self, key: ObjectKey) -> None:
        """Record that the object was written, or needs no write."""
        if key not in self:
            return
        self._note_rights(key, "")
        record = self._table.record(key)
        record.not_before, record.reported = -inf, frozenset()
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
        self._table.forget(whole)

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

    def _note_rights(self, key: ObjectKey, forbidden: str) -> None:
        """Record why we have no right to write an object, empty if we have it."""
        record = self._table.record(key)
        was_forbidden, record.forbidden = record.forbidden, forbidden
        if bool(was_forbidden) != bool(forbidden):
            self._ports.on_change(key.ring)
