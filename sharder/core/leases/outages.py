"""When this process could not see whether shards renew their Leases.

If the API server does not answer, that says nothing about the shards.  So the time of an outage
does not count as time without a renewal (docs/protocol.md, "What the leader does to Leases").
Times are monotonic seconds.
"""

from dataclasses import dataclass
from typing import Final

from sharder.core.leases.state import MAX_DURATION_SECONDS

OUTAGE_SECONDS: Final = 5.0
"""Consecutive failures for this long are an outage from the first failure to the next answer.  If
they last less, only the time of the calls themselves counts.  A shard retries every 2s, so a
shorter outage does not make it late."""

STALE_SECONDS: Final = 5.0
"""How long the watch on Leases, or calls to the API server, can fail before the view is stale.

A failure is noticed after at most `kube.client.REQUEST_SECONDS`, 10s.  The sum is half of the 30s
after which, by default, the Lease of a shard that does not renew it is taken.
"""

PAUSE_SECONDS: Final = 3.0
"""A process that did nothing for so long was paused: it runs a timer every second."""

_CATCH_UP_SECONDS: Final = 1.0
"""After a pause the view is stale for so long: the watch has buffered what happened meanwhile."""

_HORIZON: Final = 2.0 * MAX_DURATION_SECONDS
"""Seconds after which an outage is forgotten: no judgement looks further back."""

_MAX_SPANS: Final = 128
"""Maximum spans; of more, the two oldest are merged, with the time between them."""


@dataclass(frozen=True, slots=True)
class Outages:
    """Spans of time in which no Lease could be seen, the oldest first; they do not overlap."""

    spans: tuple[tuple[float, float], ...] = ()

    def noted(self, begin: float, end: float) -> "Outages":
        """Return these spans and the given one, without spans that ended long ago."""
        apart = [span for span in self.spans if end - _HORIZON < span[1] < begin or span[0] > end]
        joined = [span for span in self.spans if begin <= span[1] and span[0] <= end]
        begin = min([begin, *(span[0] for span in joined)])
        end = max([end, *(span[1] for span in joined)])
        spans = sorted([*apart, (begin, end)])
        if len(spans) > _MAX_SPANS:
            spans[:2] = [(spans[0][0], spans[1][1])]
        return Outages(tuple(spans))

    def put_off(self, since: float) -> float:
        """Return `since`, later by the length of all outages after it."""
        return since + sum(end - max(begin, since) for begin, end in self.spans if end > since)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Consecutive failures of calls to the API server."""

    failing_since: float | None = None
    """When the first failed call was sent, None if the last call was answered."""

    def after(self, sent: float, *, answered: bool) -> "Attempts":
        """Return the state after a call."""
        if answered:
            return Attempts()
        return Attempts(sent if self.failing_since is None else self.failing_since)

    def blind(self, sent: float, now: float, *, answered: bool) -> tuple[float, float] | None:
        """Return the span that a call adds to the outages, None if there is none."""
        first = self.failing_since
        if first is not None and now - first >= OUTAGE_SECONDS:
            return first, now
        return None if answered else (sent, now)


class Sight:
    """Whether this process sees the Leases.

    Some methods return the span of time, from begin to end, in which it could not see them.
    """

    def __init__(self, at: float) -> None:
        """Begin with a current view."""
        self._attempts = Attempts()
        self._heard = at
        """When the watch was last known to be connected."""
        self._blind_since: float | None = None
        """Since when calls or the watch fail and no Lease was seen."""
        self._ran = at
        """When this process last ran its timer."""
        self._caught_up = at
        """When everything that happened in the last pause has been seen."""

    def is_stale(self, at: float) -> bool:
        """Return whether changes of shards could have been missed for too long."""
        if at - self._ran >= PAUSE_SECONDS or at < self._caught_up:
            return True
        return self._blind_since is not None and at - self._blind_since >= STALE_SECONDS

    def runs(self, at: float) -> None:
        """Record that this process runs; called every second, so a longer gap was a pause."""
        if at - self._ran >= PAUSE_SECONDS:
            self._caught_up = at + _CATCH_UP_SECONDS
        self._ran = at

    def saw(self, at: float) -> None:
        """Record that the watch showed a Lease."""
        self._heard, self._blind_since = at, None

    def watched(self, at: float, *, stands: bool) -> tuple[float, float]:
        """Record that the watch has failed, or is connected again; return the span without it."""
        blind = self._heard, at
        if stands:
            self._heard = at
        self._note(at, sees=stands)
        return blind

    def called(
        self, sent: float, at: float, *, answered: bool, watches: bool
    ) -> tuple[float, float] | None:
        """Record a call that ends now; `watches` is whether the watch is connected."""
        self._note(at, sees=answered and watches)
        blind = self._attempts.blind(sent, at, answered=answered)
        self._attempts = self._attempts.after(sent, answered=answered)
        return blind

    def _note(self, at: float, *, sees: bool) -> None:
        if sees:
            self._blind_since = None
        elif self._blind_since is None:
            self._blind_since = at
