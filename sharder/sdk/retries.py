"""When an object is reconciled again: after a failure, later, or not until it changes."""

from datetime import timedelta
from math import inf, isfinite
from typing import Final

from sharder.core.errors import ConfigError, SharderError
from sharder.runtime.backoff import Backoff

BACKOFF: Final = Backoff(base=0.1, cap=300.0)
"""The delay after a failure, in seconds; the sharder has the same cap for objects that fail."""


class PermanentError(SharderError):
    """The object cannot be handled as it is: do not retry until the object changes.

    A change is a resourceVersion that this reconcile has neither read nor written; a change of a
    child does not count.  After a restart, and on its next shard, the object is tried once more.
    """


class Requeue(Exception):
    """Something is not ready yet, but nothing is wrong: end this reconcile, and repeat it later.

    Unlike a failure, this outcome is not logged as a warning, and it resets the back-off.
    """

    def __init__(self, *, after: float | timedelta) -> None:
        """`after` is the delay until the next reconcile, in seconds or as a timedelta.

        Raises:
            ValueError: `after` is negative or not finite.
        """
        self.seconds = seconds_of(after)
        super().__init__(f"requeue after {self.seconds:g}s")


def seconds_of(after: float | timedelta) -> float:
    """Return the delay in seconds; `ValueError` if it is negative or not finite."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not isfinite(seconds) or seconds < 0:
        raise ValueError(f"the time until the next reconcile must be 0s or more, not {after}")
    return seconds


def check_backoff(backoff: Backoff) -> None:
    """Raise `ConfigError` unless base and cap are positive and finite, and base <= cap."""
    if not 0 < backoff.base <= backoff.cap < inf:
        raise ConfigError(
            f"the back-off must have 0 < base <= cap, but has base {backoff.base:g}s and "
            f"cap {backoff.cap:g}s"
        )
