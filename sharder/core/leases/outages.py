"""When this process could not see whether shards renew their Leases; pure.

Silence of the API server is not silence of the shards, so it is subtracted from theirs; all other
silence goes on counting (docs/protocol.md, "What the leader does to Leases").  Times are monotonic
seconds.
"""

from dataclasses import dataclass
from typing import Final

from sharder.core.leases.state import MAX_DURATION_SECONDS

OUTAGE_SECONDS: Final = 5.0
"""Failures in a row over so long are an outage from the first to the next answer; of fewer the
calls alone count.  A shard tries every 2 s, so a shorter one costs it no renewal that matters."""

STALE_SECONDS: Final = 5.0
"""How long the watch of Leases, or calls to the API server, may fail before a view is stale.

A failure is known after `kube.client.REQUEST_SECONDS`, 10 s, at the latest; both together are
half of the 30 s after which a silent shard with the default Lease is given up.
"""

_HORIZON: Final = 2.0 * MAX_DURATION_SECONDS
"""No silence that counts began earlier."""

_MAX_SPANS: Final = 128
"""Where there are more, the two oldest become one, with the time between them."""


@dataclass(frozen=True, slots=True)
class Outages:
    """Spans of time that were blind; none touches another, oldest first."""

    spans: tuple[tuple[float, float], ...] = ()

    def noted(self, begin: float, end: float) -> "Outages":
        """Return these and one more, which ends now; forget what ended long ago."""
        apart = [span for span in self.spans if end - _HORIZON < span[1] < begin or span[0] > end]
        joined = [span for span in self.spans if begin <= span[1] and span[0] <= end]
        begin = min([begin, *(span[0] for span in joined)])
        end = max([end, *(span[1] for span in joined)])
        spans = sorted([*apart, (begin, end)])
        if len(spans) > _MAX_SPANS:
            spans[:2] = [(spans[0][0], spans[1][1])]
        return Outages(tuple(spans))

    def put_off(self, since: float) -> float:
        """Return the time from which silence counts that began at `since`: later by outages."""
        return since + sum(end - max(begin, since) for begin, end in self.spans if end > since)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Failures in a row of calls to the API server."""

    failing_since: float | None = None
    """When the first of them was sent, None if the last one was answered."""

    def after(self, sent: float, *, answered: bool) -> "Attempts":
        """Return what is known after a call."""
        if answered:
            return Attempts()
        return Attempts(sent if self.failing_since is None else self.failing_since)

    def blind(self, sent: float, now: float, *, answered: bool) -> tuple[float, float] | None:
        """Return the span that counts as an outage because of a call, None if there is none."""
        first = self.failing_since
        if first is not None and now - first >= OUTAGE_SECONDS:
            return first, now
        return None if answered else (sent, now)


class Sight:
    """Whether this process sees the Leases; notes return the span that was blind."""

    def __init__(self, at: float) -> None:
        """Begin with a view that nothing is wrong with."""
        self._attempts = Attempts()
        self._heard = at
        """When the watch was last known to stand."""
        self._blind_since: float | None = None
        """Since when there is trouble and no Lease was seen."""

    def is_stale(self, at: float) -> bool:
        """Tell whether Leases were out of sight for so long that shards may have come and gone."""
        return self._blind_since is not None and at - self._blind_since >= STALE_SECONDS

    def saw(self, at: float) -> None:
        """Take note that the watch has shown a Lease."""
        self._heard, self._blind_since = at, None

    def watched(self, at: float, *, stands: bool) -> tuple[float, float]:
        """Take note that the watch is broken, or stands again."""
        blind = self._heard, at
        if stands:
            self._heard = at
        self._note(at, sees=stands)
        return blind

    def called(
        self, sent: float, at: float, *, answered: bool, watches: bool
    ) -> tuple[float, float] | None:
        """Take note of a call that ends now; `watches` tells whether the watch stands."""
        self._note(at, sees=answered and watches)
        blind = self._attempts.blind(sent, at, answered=answered)
        self._attempts = self._attempts.after(sent, answered=answered)
        return blind

    def _note(self, at: float, *, sees: bool) -> None:
        if sees:
            self._blind_since = None
        elif self._blind_since is None:
            self._blind_since = at
