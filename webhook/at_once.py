"""Answer whole reviews at the end of the turn of the event loop that received them.

Callbacks of a parser, a task, and messages and writes of ASGI would take as long as the rest of an
answer, so each answer is one write.  Data that is not clearly one whole review takes the way
through parser and ASGI.

All reviews of one turn are first received, then decided, then written.  One after the other, each
review would take 1.5 times as long: receiving, deciding and writing evict each other from the
processor's caches.
"""

import asyncio
import logging
import re
import time
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from sharder.core.names import WEBHOOK_PATH_PREFIX
from webhook.endpoint import AdmissionEndpoint, Answer

log = logging.getLogger(__name__)

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
"""The heads of the API server are a quarter of this."""

MAX_BYTES: Final = 16 * 1024
"""A larger review is answered at once: while it waits with others, it would leave the processor's
cache."""

HEADS: Final = 1024
"""Limit on the remembered heads: apart from their lengths, the heads of one API server to one ring
are equal."""


def review_in(data: bytes) -> tuple[str, bytes] | None:
    """Return the path and the body if `data` is one whole review, else None."""
    length = _LENGTH.search(data, 0, MAX_HEAD_BYTES)
    end = data.find(_BLANK, 0, MAX_HEAD_BYTES)
    if length is None or end < 0 or int(length[1]) != len(data) - end - len(_BLANK):
        return None
    path = _path_of(data[: length.start()], data[length.end() : end])
    return None if path is None else (path, data[end + len(_BLANK) :])


@lru_cache(maxsize=HEADS)
def _path_of(before: bytes, after: bytes) -> str | None:
    """Return the path of a review whose head is `before`, its length, and `after`."""
    head = _HEAD.fullmatch(before + after)
    if head is None:
        return None
    path, fields = head[1].decode("ascii"), head[2].lower()
    is_plain = _JSON.search(fields) is not None and _SPECIAL.search(fields) is None
    return path if is_plain and WEBHOOK_PATH_PREFIX in path else None


class Client(Protocol):
    """The connection from which a review was received."""

    def reply(self, answer: bytes) -> None:
        """Send the answer to the review."""
        ...

    def parse(self, data: bytes) -> None:
        """Pass data that was taken for a review to the parser after all."""
        ...

    def trust(self) -> None:
        """Record that the client is the API server."""
        ...

    def abort(self) -> None:
        """Abort the connection."""
        ...


class Taken(msgspec.Struct, frozen=True):
    """A review that waits for its answer."""

    client: Client
    data: bytes
    path: str
    body: bytes
    began: float


class AtOnce:
    """Collects reviews, and answers them with an endpoint."""

    def __init__(self, endpoint: AdmissionEndpoint) -> None:
        self._endpoint = endpoint
        self._head = b""
        """The head of a successful answer, up to its length; empty while every answer closes its
        connection."""
        self._waiting: list[Taken] = []

    def stamp(self, date: bytes, *, is_open: bool) -> None:
        """Set the date of the answers; leave all requests to ASGI unless connections stay open."""
        self.answer()
        head = b"HTTP/1.1 200 OK\r\ndate: %s\r\ncontent-type: application/json\r\n" % date
        self._head = head + b"content-length: " if is_open else b""

    def take(self, data: bytes, client: Client) -> bool:
        """Take the data from a client if it is one whole review, and answer it soon.

        The client must not pass other data until then.
        """
        review = review_in(data) if self._head else None
        if review is None:
            return False
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.answer)
        self._waiting.append(Taken(client, data, *review, time.perf_counter()))
        if len(data) > MAX_BYTES:
            self.answer()
        return True

    def answer(self) -> None:
        """Answer all reviews that were taken; pass those that cannot be decoded to the parser."""
        waiting, self._waiting = self._waiting, []
        answers = [self._endpoint.answer(each.path, each.body) for each in waiting]
        for each, answer in zip(waiting, answers, strict=True):
            try:
                self._settle(each, answer)
            except Exception:  # others wait for their answers
                log.exception("connection failed")
                each.client.abort()

    def _settle(self, taken: Taken, answer: Answer | None) -> None:
        client = taken.client
        if answer is None:
            client.parse(taken.data)
            return
        client.reply(b"%s%d\r\n\r\n%s" % (self._head, len(answer.body), answer.body))
        if answer.trusted:
            client.trust()
        self._endpoint.count(answer, time.perf_counter() - taken.began)
