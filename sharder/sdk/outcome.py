"""How a function says that its object is not done: exceptions that choose the next time."""

from datetime import timedelta
from math import isfinite

from sharder.core.errors import SharderError


class PermanentError(SharderError):
    """The object cannot be handled as it is: do not retry until the object changes.

    A change is a new resourceVersion that this reconcile has not seen or written; a change of a
    child is none.  A shard that starts, or that gets the object from another one, tries it once.
    """


class Requeue(Exception):  # noqa: N818 - an outcome, not an error
    """The object is not done yet, and nothing is wrong: end here, and start again later.

    Unlike a failure it is not logged as a warning, and it resets the back-off.
    """

    def __init__(self, *, after: float | timedelta) -> None:
        """`after` is the time until then, in seconds or as a timedelta.

        Raises:
            ValueError: it is negative or not finite.
        """
        self.seconds = seconds_of(after)
        super().__init__(f"requeue after {self.seconds:g}s")


def seconds_of(after: float | timedelta) -> float:
    """Return the time in seconds; `ValueError` if it is negative or not finite."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not isfinite(seconds) or seconds < 0:
        raise ValueError(f"the time until the next reconcile must be 0 s or more, not {after}")
    return seconds
