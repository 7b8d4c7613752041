"""Log errors of operations that are retried forever."""

import logging
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeAlias, TypeVar

from sharder.core.errors import ApiError

OnError: TypeAlias = Callable[[ApiError | None], None]
"""Called with each failure, and once with None on recovery."""

K = TypeVar("K", bound=Hashable)

_log = logging.getLogger(__name__)


def ignore(*_about: object) -> None:
    """Do nothing: the default of a callback."""


MAX_REMEMBERED: Final = 10_000
"""Limit on the keys whose last text is remembered."""


class Once(Generic[K]):
    """The last text that was reported for each key, so that a repeated text is reported once."""

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        """Beyond `limit` keys nothing is reported, so that forged keys cannot flood a log."""
        self._limit = limit
        self._texts: dict[K, str] = {}

    def is_new(self, key: K, text: str) -> bool:
        """Return whether to report the text, and remember it until `forget`."""
        known = self._texts.get(key)
        if known == text or (known is None and len(self._texts) >= self._limit):
            return False
        self._texts[key] = text
        return True

    def forget(self, key: K) -> None:
        """Forget the key, so that its next text is reported."""
        self._texts.pop(key, None)


class ErrorLog:
    """The state of one retried operation; only changes of the state are logged."""

    def __init__(self, doing: str, on_error: OnError = ignore) -> None:
        self._doing = doing
        self._on_error = on_error
        self._error: ApiError | None = None

    def failed(self, error: ApiError) -> None:
        """Record a failure; log it if it differs from the last one."""
        known, self._error = self._error, error
        if known is None or (type(known), str(known)) != (type(error), str(error)):
            _log.warning(
                "cannot %s: %s",
                self._doing,
                error,
                extra={"why": self._doing, "error": str(error)},
            )
        self._on_error(error)

    def missed(self, error: ApiError) -> None:
        """Record an expired watch, which is not a failure, and which the caller logs."""
        self._error = error
        self._on_error(error)

    def over(self) -> None:
        """Record a success; cheap if the last attempt succeeded too."""
        if self._error is None:
            return
        self._error = None
        _log.info("recovered, can %s again", self._doing, extra={"why": self._doing})
        self._on_error(None)
