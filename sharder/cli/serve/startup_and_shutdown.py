"""How long a start waits for what it cannot do without.

The quiet period of a replica that stops: it is not ready any more, and serves on.

A Service goes on to send calls for a while after the readiness probe has said no: until the
kubelet, the EndpointSlice and every node's proxy know.  Who closes the port before that loses
admissions silently, because the API server passes over a webhook that it cannot reach.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final, TypeVar

from sharder.core.errors import ApiError, ConfigError, Forbidden, NotFound, Unavailable
from sharder.runtime.clock import Clock

PATIENCE_SECONDS = 60.0
"""How long a start waits for API server, CRD and rights before it gives up."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class StartupDeadline:
    """Begins with the start of the process, and is the same for all that it waits for."""

    def __init__(self, clock: Clock, told: Callable[[str], None]) -> None:
        """`told` is told what it waits for, and what was the matter last."""
        self._clock = clock
        self._told = told
        self._deadline = clock.monotonic() + PATIENCE_SECONDS

    async def insist(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        """Try until it works.

        Raises:
            ConfigError: The start has taken too long; the message says what to do.
        """
        self._told(f"waits to {doing}")
        while True:
            try:
                return await call()
            except ApiError as error:
                if self._is_over():
                    reason = f"cannot {doing} for {PATIENCE_SECONDS:g} s: {advice(error)}"
                    raise ConfigError(reason) from error
                _log.warning("cannot start yet", extra={"why": doing, "error": str(error)})
                self._told(f"cannot {doing} yet: {error}")
            await self._clock.sleep(1.0)

    async def outlast(self, missing: Callable[[], str | None]) -> None:
        """Wait until nothing is missing that has to be listed.

        Raises:
            ConfigError: The start has taken too long; the message says what to do.
        """
        while (what := missing()) is not None:
            if self._is_over():
                raise ConfigError(
                    f"{what} ({PATIENCE_SECONDS:g} s long); check that the API server runs, "
                    "the ControllerRing CRD is installed and the sharder may list and watch them"
                )
            self._told(what)
            await self._clock.sleep(0.05)

    async def allow(
        self, seconds: float, doing: str, pending: Callable[[], Sequence[str]]
    ) -> None:
        """Wait until nothing is pending any more, and at most so many seconds."""
        deadline = self._clock.monotonic() + seconds
        while (names := pending()) and self._clock.monotonic() < deadline:
            self._told(f"waits to {doing} {', '.join(names)}")
            await self._clock.sleep(0.05)

    def _is_over(self) -> bool:
        return self._clock.monotonic() >= self._deadline


def advice(error: ApiError) -> str:
    """Return the error with what the operator can do about it."""
    match error:
        case Forbidden():
            return f"{error}; grant it to the sharder's ServiceAccount, as the chart does"
        case NotFound():
            return f"{error}; install the CRD and the namespace, as the chart does"
        case Unavailable():
            return f"{error}; check the kubeconfig's server and that it runs"
        case _:
            return str(error)


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
