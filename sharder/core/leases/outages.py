"""When this process could not see whether shards renew their Leases.

Silence of the API server is not silence of the shards, so it is subtracted from theirs
(docs/protocol.md, "What the leader does to Leases").  Times are monotonic seconds.
"""

from dataclasses import dataclass
from typing import Final

from sharder.core.leases.state import MAX_DURATION_SECONDS

OUTAGE_SECONDS: Final = 5.0
"""Consecutive failures for this long are an outage from the first failure to the next answer; of
fewer only the calls themselves count.  A shard retries every 2s, so a shorter outage costs it no
renewal that matters."""

STALE_SECONDS: Final = 5.0
"""How long the watch on Leases, or calls to the API server, can fail before the view is stale.

A failure is known after at most `kube.client.REQUEST_SECONDS`, 10s.  Both together are half of the
30s after which the Lease of a silent shard is taken by default.
"""

_HORIZON: Final = 2.0 * MAX_DURATION_SECONDS
"""Silence that counts did not begin earlier."""

_MAX_SPANS: Final = 128
"""If there are more, the two oldest become one, with the time between them."""


@dataclass(frozen=True, slots=True)
class Outages:
    """Spans of time without sight of the Leases, the oldest first; none touches another."""

    spans: tuple[tuple[float, float], ...] = ()

    def noted(self, begin: float, end: float) -> "Outages":
        """Return these spans and one that ends now, without those that ended long ago."""
        apart = [span for span in self.spans if end - _HORIZON < span[1] < begin or span[0] > end]
        joined = [span for span in self.spans if begin <= span[1] and span[0] <= end]
        begin = min([begin, *(span[0] for span in joined)])
        end = max([end, *(span[1] for span in joined)])
        spans = sorted([*apart, (begin, end)])
        if len(spans) > _MAX_SPANS:
            spans[:2] = [(spans[0][0], spans[1][1])]
        return Outages(tuple(spans))

    def put_off(self, since: float) -> float:
        """Return from when silence counts that began at `since`: later by all outages since."""
        return since + sum(end - max(begin, since) for begin, end in self.spans if end > since)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Consecutive failures of calls to the API server."""

    failing_since: float | None = None
    """When the first of them was sent, None if the last one was answered."""

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
    """Whether this process sees the Leases; notes return the span without sight."""

    def __init__(self, at: float) -> None:
        """Begin with a current view."""
        self._attempts = Attempts()
        self._heard = at
        """When the watch was last known to be connected."""
        self._blind_since: float | None = None
        """Since when calls or the watch fail and no Lease was seen."""

    def is_stale(self, at: float) -> bool:
        """Return whether shards can have come and gone unseen for too long."""
        return self._blind_since is not None and at - self._blind_since >= STALE_SECONDS

    def saw(self, at: float) -> None:
        """Note that the watch showed a Lease."""
        self._heard, self._blind_since = at, None

    def watched(self, at: float, *, stands: bool) -> tuple[float, float]:
        """Note that the watch is broken, or connected again."""
        blind = self._heard, at
        if stands:
            self._heard = at
        self._note(at, sees=stands)
        return blind

    def called(
        self, sent: float, at: float, *, answered: bool, watches: bool
    ) -> tuple[float, float] | None:
        """Note a call that ends now; `watches` is whether the watch is connected."""
        self._note(at, sees=answered and watches)
        blind = self._attempts.blind(sent, at, answered=answered)
        self._attempts = self._attempts.after(sent, answered=answered)
        return blind

    def _note(self, at: float, *, sees: bool) -> None:
        if sees:
            self._blind_since = None
        elif self._blind_since is None:
            self._blind_since = at
