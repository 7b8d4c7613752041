"""What the connections of the webhook's port share."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from webhook.messages import Route

if TYPE_CHECKING:
    from webhook.connection import Connection

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Limit of all incomplete bodies together: two of the largest that the API server sends.  A body
that arrives in one piece is never counted."""

log = logging.getLogger(__name__)


class Port:
    """What the connections of one port share."""

    def __init__(self, route_of: Callable[[str], Route | None], request_seconds: float) -> None:
        """`route_of` knows the paths; a request must be complete in `request_seconds`."""
        self.route_of = route_of
        self.request_seconds = request_seconds
        self.is_retired = False
        """Whether each connection ends with its next answer."""
        self.date = b""
        """The time, for the header of answers."""
        self._held: dict[Connection, int] = {}
        """The sizes of incomplete bodies; the oldest request is first."""
        self._whole: list[Connection] = []
        """Those whose requests are complete and not answered yet."""

    def answer_soon(self, connection: "Connection") -> None:
        """Answer a complete request when this turn of the event loop has received all it can."""
        if not self._whole:
            asyncio.get_running_loop().call_soon(self._answer)
        self._whole.append(connection)

    def _answer(self) -> None:
        """Decide all answers, then write them: one after the other takes a third longer."""
        whole, self._whole = self._whole, []
        replies = [each.decide() for each in whole]
        for connection, reply in zip(whole, replies, strict=True):
            try:
                connection.send(reply)
            except Exception:  # others wait for their answers
                log.exception("connection failed")
                connection.abort()

    def hold(self, connection: "Connection", size: int) -> None:
        """Note the size of an incomplete body; refuse the oldest of strangers if all are large."""
        self._held[connection] = size
        while sum(self._held.values()) > MAX_HELD_BYTES:
            strangers = (each for each in self._held if not each.is_trusted)
            next(strangers, next(iter(self._held))).overload()

    def release(self, connection: "Connection") -> None:
        """Note that nothing of a connection is held any more.  Idempotent."""
        self._held.pop(connection, None)
