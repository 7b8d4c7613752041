"""How well this process sees the Leases.

If the API server does not answer, that says nothing about the shards.  So the time of an outage,
in which this process did not see the Leases, does not count as time without a renewal
(docs/protocol.md, "What the leader does to Leases").
"""

from collections.abc import Callable, Iterable
from typing import Final

from sharder.core.errors import ApiError, Expired

LEASES = "leases"
"""The watch whose gaps count as outages."""

STALE_SECONDS: Final = 5.0
"""How long the watch on Leases, or calls to the API server, can fail before the view is stale.

A failure is noticed after at most `kube.client.REQUEST_SECONDS`, 10s.  The sum is half of the 30s
after which, by default, the Lease of a shard that does not renew it is taken.
"""

PAUSE_SECONDS: Final = 3.0
"""A process that did nothing for so long was paused: it runs a timer every second."""

CATCH_UP_SECONDS: Final = 1.0
"""After a pause the view is stale for so long: the watch has buffered what happened meanwhile."""


class WatchHealth:
    """The first sync and the errors of each watch, and the gaps in the watch of Leases."""

    def __init__(
        self,
        watches: Iterable[str],
        monotonic: Callable[[], float],
        on_outage: Callable[[float, float], None],
    ) -> None:
        """Start with nothing listed, and with a current view of the Leases.

        `on_outage` is called with each span of time in which no Lease could be seen.
        """
        self._monotonic = monotonic
        self._on_outage = on_outage
        self._unsynced = set(watches)
        self._errors: dict[str, ApiError] = {}
        now = monotonic()
        self._heard = now
        """When the watch of Leases was last known to be connected."""
        self._blind_since: float | None = None
        """Since when calls or the watch fail and no Lease was seen."""
        self._failing_since: float | None = None
        """When the first failed call was sent, None if the last call was answered."""
        self._ran = now
        """When this process last ran its timer."""
        self._caught_up = now
        """When everything that happened in the last pause has been seen."""

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

    def sees_leases(self) -> bool:
        """Return whether the watch of Leases works."""
        return LEASES not in self._errors

    def is_stale(self) -> bool:
        """Return whether Leases were not seen for so long that shards can have come and gone."""
        now, blind = self._monotonic(), self._blind_since
        is_late = blind is not None and now - blind >= STALE_SECONDS
        return is_late or now - self._ran >= PAUSE_SECONDS or now < self._caught_up

    def runs(self) -> None:
        """Record that this process is not paused; called every second."""
        now = self._monotonic()
        if now - self._ran >= PAUSE_SECONDS:
            self._caught_up = now + CATCH_UP_SECONDS
        self._ran = now

    def saw(self, what: str, *, is_list: bool) -> None:
        """Record an event of a watch; a list of Leases blocks all steps until it is `synced`."""
        if what == LEASES:
            self._heard, self._blind_since = self._monotonic(), None
            if is_list:
                self._errors.setdefault(LEASES, Expired("Leases are being listed"))

    def synced(self, what: str) -> bool:
        """Record that a list was processed; return whether it was the last missing one."""
        was_missing = what in self._unsynced
        self._unsynced.discard(what)
        self._errors.pop(what, None)
        return was_missing and not self._unsynced

    def called(self, sent: float, answered: bool) -> None:  # noqa: FBT001 - an observer
        """Record a call to the API server that ends now and was sent at `sent` (monotonic).

        Callers with regular requests report them here: from a failed call until the next answer,
        no shard could renew its Lease either, except while the watch shows Leases.
        """
        now, first = self._monotonic(), self._failing_since
        self._note(now, sees=answered and self.sees_leases())
        if answered:
            self._failing_since = None
        elif first is None:
            first = self._failing_since = sent
        if first is not None:
            self._on_outage(max(first, self._heard), now)

    def noted(self, what: str, error: ApiError | None) -> None:
        """Record an error of a watch, or None for its end; a gap in the Leases is an outage."""
        known = self._errors.pop(what, None)
        if error is not None:
            self._errors[what] = error
        # A Lease that is unchanged after a relist was not renewed, so a relist is not a gap.
        if what != LEASES or isinstance(error or known, Expired):
            return
        now = self._monotonic()
        self._on_outage(self._heard, now)
        if error is None:
            self._heard = now
        self._note(now, sees=error is None)

    def _note(self, at: float, *, sees: bool) -> None:
        if sees:
            self._blind_since = None
        elif self._blind_since is None:
            self._blind_since = at
