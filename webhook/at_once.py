"""Answer a whole review in the callback that has received it, in one write.

The parser's callbacks, the task, and the messages and writes of ASGI take as long as all the rest
of an answer.  What is not plainly one whole review goes that way.
"""

import re
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from sharder.core.names import WEBHOOK_PATH_PREFIX
from webhook.endpoint import AdmissionEndpoint

_HEAD: Final = re.compile(
    rb"POST (/[!\"$&->@-~]*+)(?:\?[!-~]*+)?+ HTTP/1\.1\r(\n(?:[A-Za-z0-9-]++: [ -~]*+\r\n)*+)\r\n"
)
"""A path without escapes or fragment, and fields on one line each (RFC 9112, sections 3 and 5)."""
# The first byte of a pattern is what `re` looks for, so `\n` is three times as fast as `^`.
_LENGTH: Final = re.compile(rb"\ncontent-length: ([0-9]{1,8})\r")
_JSON: Final = b"content-type: application/json\r\n"
_SPECIAL: Final = re.compile(rb"\n(?:connection|expect|transfer-encoding|upgrade):")
"""Fields that change what a request is, or what follows its answer."""
_PREFIX: Final = WEBHOOK_PATH_PREFIX.encode()


class Piece(NamedTuple):
    """A request."""

    path: str
    body: bytes


def review_in(data: bytes) -> Piece | None:
    """Return the review that `data` is; None if it is anything else, more, or less."""
    if _PREFIX not in data[:256]:
        return None
    head = _HEAD.match(data)
    if head is None:
        return None
    path, fields = head.groups()
    fields, body = fields.lower(), data[head.end() :]
    if _JSON not in fields or _SPECIAL.search(fields) is not None:
        return None
    if _LENGTH.findall(fields) != [b"%d" % len(body)]:
        return None
    return Piece(path.decode("ascii"), body)


class AtOnce:
    """Answers for an endpoint."""

    def __init__(self, endpoint: AdmissionEndpoint) -> None:
        self._endpoint = endpoint
        self._head = b""
        """Of a good answer, up to its length; empty while every answer ends its connection."""

    def stamp(self, date: bytes, *, is_open: bool) -> None:
        """Show the date; leave all to ASGI unless connections stay open."""
        head = b"HTTP/1.1 200 OK\r\ndate: %s\r\ncontent-type: application/json\r\n" % date
        self._head = head + b"content-length: " if is_open else b""

    def answer(
        self, data: bytes, write: Callable[[bytes], None], trust: Callable[[], None]
    ) -> bool:
        """Answer what was received, if it is one whole review that a decoder can read.

        `trust` is called if the client is the API server.
        """
        piece = review_in(data) if self._head else None
        if piece is None:
            return False
        began = time.perf_counter()
        answer = self._endpoint.answer(*piece)
        if answer is None:
            return False
        write(b"%s%d\r\n\r\n%s" % (self._head, len(answer.body), answer.body))
        if answer.trusted:
            trust()
        self._endpoint.count(answer, time.perf_counter() - began)
        return True
