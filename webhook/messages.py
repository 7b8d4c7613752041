"""How the requests for a path are answered, and the bytes of the answers."""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

Body: TypeAlias = bytes | bytearray

Fields: TypeAlias = Mapping[bytes, bytes]
"""The headers of a request, with names in lower case."""

MAX_STRANGER_BYTES: Final = 256 * 1024
"""Limit of a body without the token.  To decode this many bytes takes 20 ms at worst."""

MAX_WARNING_CHARACTERS = 256
"""Kubernetes can truncate longer warnings ("Dynamic Admission Control", section on responses)."""

_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus
}


class Answer(msgspec.Struct):
    """An answer; by default its body is JSON."""

    status: int
    body: bytes
    sent: Callable[[float], None] = lambda _seconds: None
    """Called after the answer was written, with the seconds since its request began."""
    fields: bytes = b"content-type: application/json\r\n"


Reply: TypeAlias = Answer | Coroutine[None, None, Answer]


class Route(msgspec.Struct):
    """How the requests for one path are answered."""

    reply: Callable[[Body], Reply]
    """Answers a whole body of at most `max_bytes`."""
    method: bytes = b"POST"
    """The only method; a POST has a body of JSON."""
    max_bytes: int = MAX_STRANGER_BYTES
    is_trusted: bool = False
    """Whether the path has the token."""
    refused: Callable[[str, float], None] = lambda _outcome, _seconds: None
    """Called with the outcome of a request that was not passed to `reply`, and its seconds."""


App: TypeAlias = Callable[[str, Fields], Route | None]
"""Returns how a request for a path is answered, None if there is no such path."""


def refusal(
    status: int,
    reason: str = "",
    sent: Callable[[float], None] = lambda _seconds: None,
    more: bytes = b"",
) -> Answer:
    """Return an answer that is a line of text, with `more` fields."""
    line = (reason or HTTPStatus(status).phrase).replace("\n", " ") + "\n"
    return Answer(
        status, line.encode(), sent, b"%scontent-type: text/plain; charset=utf-8\r\n" % more
    )


def encode(answer: Answer, date: bytes, *, keep: bool) -> bytes:
    """Return the bytes of an answer, after which the connection is kept or ends."""
    body = answer.body
    return b"%sdate: %s\r\n%s%scontent-length: %d\r\n\r\n%s" % (
        _LINES[answer.status],
        date,
        answer.fields,
        b"" if keep else b"connection: close\r\n",
        len(body),
        body,
    )


def printable(warning: str) -> str:
    """Fit the text into an HTTP header: the API server sends each warning in one."""
    text = "".join(c if c.isprintable() else "?" for c in warning)
    if len(text) <= MAX_WARNING_CHARACTERS:
        return text
    return text[: MAX_WARNING_CHARACTERS - 3] + "..."
