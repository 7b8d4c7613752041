"""Back off objects that could not be written, and report them.

An object that a policy rejects, or whose label another webhook removes, blocks neither its ring
nor other objects (docs/protocol.md, "Moving objects").  A quota or a webhook can reject every
write in a namespace.  Then one object is tried from time to time, instead of all, and when it is
written all others are tried at once.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from sharder.controllers.ports import BACKOFF, Ports
from sharder.controllers.scope import ObjectKey, Part, ResourceKey
from sharder.core.api.meta import PartialObject
from sharder.core.errors import (
    ApiError,
    Forbidden,
    InvalidObject,
    Rejected,
    SharderError,
    Unavailable,
)
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import Troubled
from sharder.runtime.clock import Clock

IN_A_ROW = 5
"""Failures in a row, of several objects, after which a part backs off together."""

PROBE_SECONDS = 8.0
"""Longest time between two writes to such a part."""


@dataclass(slots=True)
class _Part:
    """A part, some of whose objects could not be written."""

    objects: set[ObjectKey] = field(default_factory=set)
    in_a_row: int = 0
    """Failures since an object of the part was last written."""
    probe_at: float = 0.0
    """When the next write is tried."""

    @property
    def rejects_all(self) -> bool:
        """Whether probably no object of the part can be written."""
        return self.in_a_row >= IN_A_ROW and len(self.objects) > 1


class RejectingParts:
    """The parts with objects that could not be written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: dict[Part, _Part] = {}

    def until(self, key: ObjectKey) -> float:
        """Return until when the part of an object backs off (monotonic), 0 if it does not."""
        part = self._parts.get(key.part)
        return part.probe_at if part is not None and part.rejects_all else 0.0

    def failed(self, key: ObjectKey, seconds: float) -> float:
        """Record a failure; return the back-off of the object, which is `seconds` or less."""
        now, part = self._clock.monotonic(), self._parts.setdefault(key.part, _Part())
        part.objects.add(key)
        part.in_a_row += 1
        if part.rejects_all and part.probe_at <= now:
            seconds = min(seconds, PROBE_SECONDS)
            part.probe_at = now + seconds
        return seconds

    def written(self, key: ObjectKey) -> bool:
        """Record a write; return whether the part backed off together until now."""
        part = self._parts.get(key.part)
        if part is None:
            return False
        rejected_all, part.in_a_row = part.rejects_all, 0
        return rejected_all

    def over(self, key: ObjectKey) -> None:
        """Record that an object was written, or needs no write."""
        part = self._parts.get(key.part, _Part())
        part.objects.discard(key)
        if not part.objects:
            self._parts.pop(key.part, None)

    def forget(self, part: Part) -> None:
        """Forget a part that can be read or written again."""
        for each in [each for each in self._parts if part.includes(each)]:
            del self._parts[each]


MAX_REMEMBERED = 10_000
"""Limit on the objects with a back-off; beyond it, only the resync retries."""

MAX_TIMES = 3
"""Failures in a row after which an owner no longer waits for a dependent: about 10 s."""

REPEAT_SECONDS = 60.0
"""Seconds between two log lines about objects of one resource that fail in the same way."""

WRITE_FAILED, LABEL_REMOVED = "ShardWriteFailed", "ShardLabelRemoved"
"""Reasons of Events."""

_log = logging.getLogger(__name__)

Retry = Callable[[ObjectKey, float], None]
"""Called with an object, and the seconds until it is tried again."""


class BackingOff(SharderError):
    """The last write to this object failed a moment ago."""


class LabelReverted(Rejected):
    """The API server accepted our write, but the label is missing: another webhook removed it."""


@dataclass(slots=True)
class _Failure:
    times: int = 0
    until: float = 0.0
    reported: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Failing:
    """The failing objects of one resource."""

    objects: set[ObjectKey] = field(default_factory=set)
    forbidden: set[ObjectKey] = field(default_factory=set)
    """Those that we have no right to write."""
    text: str = ""
    """Why the first of these is forbidden; a text of each would change the status all the time."""
    logged: dict[type[Exception], float] = field(default_factory=dict)
    """When each type of error was last logged."""


class Failures:
    """The failures in a row and the back-off of each object, and of parts that reject all."""

    def __init__(self, ports: Ports, *, retry: Retry) -> None:
        """`retry` is called with an object, and the seconds until it is tried again."""
        self._ports = ports
        self._clock = ports.clock
        self._retry = retry
        self._rejecting = RejectingParts(ports.clock)
        self._failures: dict[ObjectKey, _Failure] = {}
        self._resources: dict[ResourceKey, _Failing] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._failures

    def wait(self, key: ObjectKey) -> float:
        """Return for how many seconds the object still backs off, or its whole part."""
        failure, until = self._failures.get(key), self._rejecting.until(key)
        if failure is not None:
            until = max(until, failure.until)
        return max(0.0, until - self._clock.monotonic())

    def keeps_owner(self, key: ObjectKey) -> bool:
        """Return whether the owner of a failed controlled object has to wait for it.

        Not forever: a child that cannot be written must not leave its owner unassigned.
        """
        failure = self._failures.get(key)
        return failure is not None and failure.times < MAX_TIMES

    def is_stubborn(self, key: ObjectKey) -> bool:
        """Return whether so many writes in a row failed that the next one will probably fail."""
        failure = self._failures.get(key)
        return failure is not None and failure.times >= MAX_TIMES

    def apart(self, snapshot: RingSnapshot) -> Troubled | None:
        """Return the ring's controlled objects that cannot be written, None if there are none."""
        apart = [
            key
            for of, failing in self._resources.items()
            if of.ring == snapshot.name and snapshot.roles.get(of.resource) is Role.CONTROLLED
            for key in failing.objects
        ]
        if not apart:
            return None
        first = min(apart)
        return Troubled(count=len(apart), first=f"{first.resource} {first.ref}")

    def insist(self, key: ObjectKey) -> None:
        """Raise `BackingOff` while the object backs off."""
        seconds = self.wait(key)
        if seconds > 0:
            raise BackingOff(f"{key.resource} {key.ref} is backing off for another {seconds:.1f}s")

    async def failed(
        self, key: ObjectKey, obj: PartialObject, error: ApiError | InvalidObject
    ) -> None:
        """Double the object's back-off, and retry the object after it.

        Each reason is reported once, as an Event on the object, until a write succeeds; a busy
        server is reported only after two failures in a row.
        """
        ring, resource = key.resource_key
        self._ports.metrics.counts["object_failures_total"].add(ring, *resource)
        failure = self._failures.get(key)
        if failure is None:
            if len(self._failures) >= MAX_REMEMBERED:
                return
            failure = self._failures[key] = _Failure()
        failure.times += 1
        seconds = self._rejecting.failed(key, BACKOFF.delay(failure.times, self._ports.rng))
        failure.until = self._clock.monotonic() + seconds
        self._retry(key, seconds)
        of = self._resources.setdefault(key.resource_key, _Failing())
        of.objects.add(key)
        self._note_rights(key, error)
        if self._ports.stands_by:
            return
        self._log_failure(key, of, error)
        if isinstance(error, Unavailable) and failure.times == 1:
            return  # it might pass soon, and the Event would get no answer either
        reason = LABEL_REMOVED if isinstance(error, LabelReverted) else WRITE_FAILED
        if reason not in failure.reported:
            failure.reported.add(reason)
            message = f"cannot write the labels of ring {ring}: {error}"
            await self._ports.recorder.warn(obj, reason, message)

    def written(self, key: ObjectKey) -> None:
        """Record that the object was written, so that others of its part can be written too."""
        if self._rejecting.written(key):
            self.forgive(key.part)
            self._ports.on_written(key.part)

    def forgive(self, part: Part) -> bool:
        """End the back-offs of a part that can be read or written again; return if there were any.

        They are tried by the pass that follows.
        """
        found = False
        for key, failure in self._failures.items():
            if part.holds(key):
                failure.until, found = self._clock.monotonic(), True
        self._rejecting.forget(part)
        return found

    def over(self, key: ObjectKey) -> None:
        """Record that the object was written, or needs no write."""
        if self._failures.pop(key, None) is not None:
            self._rejecting.over(key)
            self._note_rights(key, None)
            of = self._resources[key.resource_key]
            of.objects.discard(key)
            if not of.objects:
                del self._resources[key.resource_key]
                fields = {"ring": key.ring, "why": str(key.resource)}
                if of.logged:
                    _log.info("objects can be moved again", extra=fields)

    def _log_failure(self, key: ObjectKey, of: _Failing, error: ApiError | InvalidObject) -> None:
        """Log the first object of a resource that fails this way, and one each minute."""
        now = self._clock.monotonic()
        if now - of.logged.get(type(error), -inf) >= REPEAT_SECONDS:
            of.logged[type(error)] = now
            fields = {
                "ring": key.ring,
                "object": f"{key.resource} {key.ref}",
                "error": str(error),
                "why": f"failing objects: {len(of.objects)}",
            }
            _log.warning("cannot move objects", extra=fields)

    def forget(self, resource_key: ResourceKey) -> None:
        """Forget a resource that was removed from the ring."""
        for key in [key for key in self._failures if key.resource_key == resource_key]:
            self.over(key)

    def _note_rights(self, key: ObjectKey, error: ApiError | InvalidObject | None) -> None:
        """Report, for each resource, the first object that we have no right to write."""
        of = self._resources[key.resource_key]
        before = bool(of.forbidden)
        if isinstance(error, Forbidden):
            of.text = of.text if before else f"cannot write {key.resource}: {error}"
            of.forbidden.add(key)
        else:
            of.forbidden.discard(key)
        if before != bool(of.forbidden):
            known = [self._resources[k] for k in sorted(self._resources) if k.ring == key.ring]
            self._ports.on_problem(
                key.ring, "write", "; ".join(each.text for each in known if each.forbidden) or None
            )
