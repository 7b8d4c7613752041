"""Make errors visible that are retried for ever."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from sharder.errors import ApiError

OnError: TypeAlias = Callable[[ApiError | None], None]
"""Told each failure, and None once when it works again."""

_log = logging.getLogger(__name__)


def ignore(_error: ApiError | None) -> None:
    """Be the `OnError` of those who have no use for it."""


class Trouble:
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
        _log.info("works again", extra={"why": self._doing})
        self._on_error(None)
