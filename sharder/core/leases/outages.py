"""When this process could not see whether shards renew their Leases.

If the API server does not answer, that says nothing about the shards.  So the time of an outage
does not count as time without a renewal (docs/protocol.md, "What the leader does to Leases").
Times are monotonic seconds.
"""

from dataclasses import dataclass
from typing import Final

from sharder.core.leases.state import MAX_DURATION_SECONDS

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
