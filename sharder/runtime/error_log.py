"""Make errors visible that are retried for ever."""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from sharder.core.errors import ApiError

OnError: TypeAlias = Callable[[ApiError | None], None]
"""Told each failure, and None once when it recovered."""

K = TypeVar("K", bound=Hashable)

REPEAT_SECONDS: Final = 60.0
"""Between two lines about a trouble that goes on."""

_log = logging.getLogger(__name__)


def ignore(_error: ApiError | None) -> None:
    """Be the `OnError` of those who have no use for it."""


class ErrorLog:
    """The state of something that is tried again and again; logged only when it changes."""

    def __init__(self, doing: str, on_error: OnError) -> None:
        self._doing = doing
        self._on_error = on_error
        self._error: ApiError | None = None

    def failed(self, error: ApiError) -> None:
        """Note a failure; warn when it is another than the last one."""
        known, self._error = self._error, error
        if known is None or (type(known), str(known)) != (type(error), str(error)):
            # The reason stands in the message too: programs that use the SDK may show no fields.
            _log.warning(
                "cannot %s: %s",
                self._doing,
                error,
                extra={"why": self._doing, "error": str(error)},
            )
        self._on_error(error)

    def missed(self, error: ApiError) -> None:
        """Note that something was missed, which is nobody's fault: no warning."""
        self._error = error
        self._on_error(error)

    def over(self) -> None:
        """Note that it works; cheap when it did before."""
        if self._error is None:
            return
        self._error = None
        _log.info("recovered", extra={"why": self._doing})
        self._on_error(None)


@dataclass(slots=True)
class _Group(Generic[K]):
    logged_at: float
    members: set[K] = field(default_factory=set)
    times: int = 0
    """Failures since something was last told."""


class GroupedErrorLog(Generic[K]):
    """Many that fail for the same reason: told of once, then each minute, and when it is over.

    No clock: every call is told when it happens, in monotonic seconds.
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group[K]] = {}

    def failed(self, reason: Hashable, member: K, now: float) -> int | None:
        """Note a failure; return of how many failures to tell now, None if of none."""
        first = reason not in self._groups
        group = self._groups.setdefault(reason, _Group(now))
        group.members.add(member)
        group.times += 1
        if not first and now - group.logged_at < REPEAT_SECONDS:
            return None
        times, group.times, group.logged_at = group.times, 0, now
        return times

    def over(self, member: K) -> bool:
        """Note that one fails no more; return whether that was the last one for some reason."""
        before = len(self._groups)
        for reason, group in list(self._groups.items()):
            group.members.discard(member)
            if not group.members:
                del self._groups[reason]
        return len(self._groups) < before
