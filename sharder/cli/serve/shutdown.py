"""How a stop divides its time.

A replica that stops becomes not ready, and keeps serving for a quiet period: a Service sends it
calls until the kubelet, the EndpointSlice and every node's proxy have followed the readiness
probe.  Closing the port earlier loses admissions silently, because the API server skips a webhook
that it cannot reach.
"""

from math import inf
from typing import Final

QUIET_SECONDS: Final = 10.0
"""A Service drops an endpoint 1-3 s after the readiness probe has failed; Gatekeeper waits 10 s
(shutdown delay), Knative 45 s (quiet period)."""

QUIET_SHARE: Final = 2 / 3
"""The quiet period's share of the stop's timeout: of the default 15 s, 5 s are left for open
requests, and the API server does not wait longer than that for an answer."""


def shares_of(timeout: float) -> tuple[float, float]:
    """Return the seconds of the quiet period, and the seconds for open requests after it.

    `timeout` limits the sum; if it is negative, open requests have no limit.
    """
    if timeout < 0:
        return QUIET_SECONDS, inf
    quiet = min(QUIET_SECONDS, timeout * QUIET_SHARE)
    return quiet, timeout - quiet
