"""How long a start waits for what it cannot do without."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharder.clock import Clock
from sharder.errors import ApiError, ConfigError, Forbidden, NotFound, Unavailable

PATIENCE_SECONDS = 60.0
"""How long a start waits for API server, CRD and rights before it gives up."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Patience:
    """Begins with the start of the process, and is the same for all that it waits for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + PATIENCE_SECONDS

    def is_over(self) -> bool:
        """Tell whether the start has taken too long."""
        return self._clock.monotonic() >= self._deadline

    async def insist(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        """Try until it works.

        Raises:
            ConfigError: The start has taken too long; the message says what to do.
        """
        while True:
            try:
                return await call()
            except ApiError as error:
                if self.is_over():
                    reason = f"cannot {doing} for {PATIENCE_SECONDS:g} s: {advice(error)}"
                    raise ConfigError(reason) from error
                _log.warning("cannot start yet", extra={"why": doing, "error": str(error)})
            await self._clock.sleep(1.0)


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
