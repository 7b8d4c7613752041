"""How long a start waits for the cluster, and how a stop divides its time.

A replica that stops becomes not ready, and keeps serving for a quiet period: a Service sends it
calls until the kubelet, the EndpointSlice and every node's proxy have followed the readiness
probe.  Closing the port earlier loses admissions silently, because the API server skips a webhook
that it cannot reach.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Final, TypeVar

from sharder.core.errors import ApiError, ConfigError, Forbidden, NotFound, Unavailable
from sharder.runtime.clock import Clock

DEADLINE_SECONDS = 60.0
"""How long a start waits for the API server, the CRD and the rights before it gives up."""

_REMEDIES: Final[Mapping[type[ApiError], str]] = {
    Forbidden: "; grant the right to the sharder's ServiceAccount, as the chart does",
    NotFound: "; install the CRD and the namespace, as the chart does",
    Unavailable: "; check the server in the kubeconfig, and that it is running",
}

T = TypeVar("T")

_log = logging.getLogger(__name__)


class StartupDeadline:
    """One deadline for everything that a start waits for."""

    def __init__(self, clock: Clock, on_change: Callable[[str], None]) -> None:
        """`on_change` gets the reason why the start still waits."""
        self._clock = clock
        self._on_change = on_change
        self._deadline = clock.monotonic() + DEADLINE_SECONDS

    async def retry(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        """Retry until the call succeeds.

        Raises:
            ConfigError: the deadline has passed; the message says how to fix it.
        """
        self._on_change(f"waiting to {doing}")
        while True:
            try:
                return await call()
            except ApiError as error:
                if self._clock.monotonic() >= self._deadline:
                    remedy = _REMEDIES.get(type(error), "")
                    reason = f"cannot {doing} within {DEADLINE_SECONDS:g}s: {error}{remedy}"
                    raise ConfigError(reason) from error
                _log.warning("cannot start yet", extra={"why": doing, "error": str(error)})
                self._on_change(f"cannot {doing} yet: {error}")
            await self._clock.sleep(1.0)

    async def wait(
        self, pending: Callable[[], str | None], *, at_most: float | None = None
    ) -> None:
        """Wait until `pending` returns None instead of a reason, or for `at_most` seconds.

        Raises:
            ConfigError: the deadline has passed, without `at_most`; it says how to fix it.
        """
        end = self._deadline if at_most is None else self._clock.monotonic() + at_most
        while (reason := pending()) is not None:
            if self._clock.monotonic() >= end and at_most is None:
                raise ConfigError(
                    f"{reason} (for {DEADLINE_SECONDS:g}s); check that the API server is running, "
                    "the ControllerRing CRD is installed, and the sharder has the right to list "
                    "and watch rings, Leases and namespaces"
                )
            if self._clock.monotonic() >= end:
                return
            self._on_change(reason)
            await self._clock.sleep(0.05)


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
