"""The state of the cache's watches: what was listed, what is broken, and since when."""

from collections.abc import Iterable

from sharder.core.errors import ApiError, Expired
from sharder.core.leases.outages import Sight
from sharder.runtime.clock import Clock

LEASES = "leases"
"""The watch whose gaps count as outages."""


class WatchHealth:
    """The first sync and the errors of each watch, and the gaps in the watch of Leases."""

    def __init__(self, watches: Iterable[str], clock: Clock) -> None:
        """Start with nothing listed."""
        self._clock = clock
        self._unsynced = set(watches)
        self._errors: dict[str, ApiError] = {}
        self._sight = Sight(clock.monotonic())

    def missing(self) -> str | None:
        """Return what was not listed yet and why, None after everything was listed."""
        reasons = [
            f"{what}: {self._errors.get(what, 'no response yet')}" for what in self._unsynced
        ]
        return "cannot list " + "; ".join(sorted(reasons)) if reasons else None

    def is_synced(self, what: str) -> bool:
        """Return whether a collection was listed."""
        return what not in self._unsynced

    def is_healthy(self, what: str) -> bool:
        """Return whether a collection was listed, and its watch works."""
        return self.is_synced(what) and what not in self._errors

    def synced(self, what: str) -> bool:
        """Record a complete list; return whether it was the last missing one."""
        was_missing = what in self._unsynced
        self._unsynced.discard(what)
        return was_missing and not self._unsynced

    def sees_leases(self) -> bool:
        """Return whether the watch of Leases works."""
        return LEASES not in self._errors

    def is_stale(self) -> bool:
        """Return whether Leases were not seen for so long that shards can have come and gone."""
        return self._sight.is_stale(self._clock.monotonic())

    def runs(self) -> None:
        """Record that this process is not paused; called every second."""
        self._sight.runs(self._clock.monotonic())

    def saw_leases(self, now: float) -> None:
        """Record an event of the watch of Leases."""
        self._sight.saw(now)

    def lists_leases(self) -> None:
        """Record that a list of Leases is being processed; a known error stays."""
        self._errors.setdefault(LEASES, Expired("Leases are being listed"))

    def listed_leases(self) -> None:
        """Record that all Leases were processed."""
        self._errors.pop(LEASES, None)

    def called(self, sent: float, *, answered: bool) -> tuple[float, float] | None:
        """Record a call to the API server; return the outage that it reveals, if any."""
        now = self._clock.monotonic()
        return self._sight.called(sent, now, answered=answered, watches=self.sees_leases())

    def noted(self, what: str, error: ApiError | None) -> tuple[float, float] | None:
        """Record an error of a watch, or None for its end; return the outage, if any."""
        known = self._errors.pop(what, None)
        if error is not None:
            self._errors[what] = error
        # A Lease that is unchanged after a relist was not renewed, so a relist is not a gap.
        if what != LEASES or isinstance(error or known, Expired):
            return None
        return self._sight.watched(self._clock.monotonic(), stands=error is None)
