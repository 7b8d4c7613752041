"""The quiet period of a replica that stops: it is not ready any more, and serves on.

A Service goes on to send calls for a while after the readiness probe has said no: until the
kubelet, the EndpointSlice and every node's proxy know.  Who closes the port before that loses
admissions silently, because the API server passes over a webhook that it cannot reach.
"""

from math import inf
from typing import Final

QUIET_SECONDS: Final = 10.0
"""A Service drops an endpoint 1-3 s after the probe has failed; others wait for 10 s (Gatekeeper's
shutdown delay) and 45 s (Knative's quiet period)."""

QUIET_SHARE: Final = 2 / 3
"""Of the time that a stop may take: of 15 s, the default, 5 are left for open requests, and the
API server waits no longer for an answer."""


def shares_of(timeout: float) -> tuple[float, float]:
    """Return the seconds of the quiet period, and those that open requests get after it.

    `timeout` is how many both may take; negative to wait for open requests without limit.
    """
    if timeout < 0:
        return QUIET_SECONDS, inf
    quiet = min(QUIET_SECONDS, timeout * QUIET_SHARE)
    return quiet, timeout - quiet
