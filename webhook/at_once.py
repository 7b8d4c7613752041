"""Answer a whole review in the callback that has received it, in one write.

The parser's callbacks, the task, and the messages and writes of ASGI take as long as all the rest
of an answer.  What is not plainly one whole review goes that way.
"""

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from sharder.core.names import WEBHOOK_PATH_PREFIX
from webhook.endpoint import AdmissionEndpoint

_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,8})(?=\r\n)")
_BLANK: Final = b"\r\n\r\n"
_HEAD: Final = re.compile(
    rb"POST (/[!\"$&->@-~]*+)(?:\?[!-~]*+)?+ HTTP/1\.1((?:\r\n[A-Za-z0-9-]++: [ -~]*+)*+)"
)
"""A path without escapes or fragment, and fields on one line each (RFC 9112, sections 3 and 5)."""
_JSON: Final = re.compile(rb"\ncontent-type: application/json(?:\r|$)")
_SPECIAL: Final = re.compile(rb"\n(?:connection|content-length|expect|transfer-encoding|upgrade):")
"""Fields that change what a request is, or what follows its answer."""

MAX_HEAD_BYTES: Final = 1024
"""The API server's are a quarter of that."""

HEADS: Final = 1024
"""That are remembered: without their lengths, those of one API server to one ring are alike."""


def review_in(data: bytes) -> tuple[str, bytes] | None:
    """Return path and body of the review that `data` is; None if it is anything else."""
    length = _LENGTH.search(data, 0, MAX_HEAD_BYTES)
    end = data.find(_BLANK, 0, MAX_HEAD_BYTES)
    if length is None or end < 0 or int(length[1]) != len(data) - end - len(_BLANK):
        return None
    path = _path_of(data[: length.start()], data[length.end() : end])
    return None if path is None else (path, data[end + len(_BLANK) :])


@lru_cache(maxsize=HEADS)
def _path_of(before: bytes, after: bytes) -> str | None:
    """Return the path in the head of a review, given as it is before and after its length."""
    head = _HEAD.fullmatch(before + after)
    if head is None:
        return None
    path, fields = head[1].decode("ascii"), head[2].lower()
    is_plain = _JSON.search(fields) is not None and _SPECIAL.search(fields) is None
    return path if is_plain and WEBHOOK_PATH_PREFIX in path else None


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
        review = review_in(data) if self._head else None
        if review is None:
            return False
        began = time.perf_counter()
        answer = self._endpoint.answer(*review)
        if answer is None:
            return False
        write(b"%s%d\r\n\r\n%s" % (self._head, len(answer.body), answer.body))
        if answer.trusted:
            trust()
        self._endpoint.count(answer, time.perf_counter() - began)
        return True
