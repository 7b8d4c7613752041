"""The parts of the rings that could not be read, and are read again each for itself.

A part that cannot be read has a back-off of its own: the passes over its ring leave it out, so
that they never wait for it.
"""

import logging
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from sharder.controllers.ports import Ports
from sharder.controllers.scope import Part
from sharder.core.errors import ApiError, Expired, NotFound, SharderError
from sharder.core.names import RingName
from sharder.core.texts import named
from sharder.runtime.backoff import Backoff
from sharder.runtime.workqueue import Worker, WorkQueue

BACKOFF: Final = Backoff(base=2.0, cap=8.0)
"""Delays between attempts.  The cap is low, because the objects of a dead shard wait as soon as
the part can be read again, and an attempt ends with its first page."""

EXPIRED_TWICE: Final = 2
"""Failures after which a list that expires (410) counts: once, it was only slow."""

CONCURRENCY: Final = 32
"""Parts that are read again at the same time: a list can take 30 s until it fails."""

_log = logging.getLogger(__name__)


class Unreadable(SharderError):
    """A part of a ring cannot be read."""

    def __init__(self, part: Part, error: ApiError) -> None:
        hint = "; see spec.resources" if isinstance(error, NotFound) else ""
        super().__init__(f"cannot read {part}: {error}{hint}")
        self.error = error


@dataclass(slots=True)
class _Failing:
    error: Unreadable
    times: int = 0

    @property
    def has_expired(self) -> bool:
        return isinstance(self.error.error, Expired)


class UnreadParts:
    """The parts that could not be read at the last attempt."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._queue = WorkQueue[Part](clock=ports.clock, rng=ports.rng, backoff=BACKOFF)
        self._failing: dict[Part, _Failing] = {}

    def __contains__(self, part: Part) -> bool:
        return part in self._failing

    async def run(self, worker: Worker[Part]) -> None:
        """Read parts again, each after its back-off, until cancelled."""
        await self._queue.run(worker, concurrency=CONCURRENCY)

    def read_again(self, part: Part, seconds: float = 0.0) -> None:
        """Read a part in `seconds`."""
        self._queue.add_after(part, seconds)

    def failed(self, part: Part, error: Unreadable) -> None:
        """Record a failure; the part is read again after its back-off."""
        failing = self._failing.setdefault(part, _Failing(error))
        failing.times += 1
        is_new = failing.times == 1 or str(failing.error) != str(error)
        failing.error = error
        if is_new:
            fields = {"ring": part.ring, "resource": str(part), "error": str(error.error)}
            _log.info("cannot read objects, will retry", extra=fields)
        if is_new or failing.times == EXPIRED_TWICE:
            self._ports.on_change(part.ring)
        self._queue.add_after(part, BACKOFF.delay(failing.times, self._ports.rng))

    def read(self, part: Part) -> bool:
        """Record that a part was read; return whether it had failed before."""
        if part not in self:
            return False
        _log.info("can read objects again", extra={"ring": part.ring, "resource": str(part)})
        self.forget(part)
        return True

    def forget(self, part: Part) -> None:
        """Forget a part that is no longer a part of its ring."""
        if self._failing.pop(part, None) is not None:
            self._ports.on_change(part.ring)

    def problem(self, ring: RingName) -> str | None:
        """Return why the ring is not ready, None if all parts can be read."""
        failing = [(part, f.error) for part, f in self._known(ring) if not f.has_expired]
        if not failing:
            return None
        others = named([str(part) for part, _ in failing[1:]])
        return f"{failing[0][1]}{'; nor ' if others else ''}{others}"

    def names(self, ring: RingName) -> tuple[str, ...]:
        """Return the parts whose objects are not known, for people."""
        known = self._known(ring)
        return tuple(
            str(part) for part, f in known if f.times >= EXPIRED_TWICE or not f.has_expired
        )

    def _known(self, ring: RingName) -> list[tuple[Part, _Failing]]:
        known = [each for each in self._failing.items() if each[0].ring == ring]
        return sorted(known, key=itemgetter(0))
