"""HTTP of the webhook's port: one connection, with all of its limits.

httptools parses; whole reviews are answered at the end of the turn of the event loop that received
them, by plain calls.  ASGI, with a task and messages for each request, would take twice as long.

A client is known as the API server by the token in the path of its requests.  Others may send
little, and are the first to be cut off where a limit of all connections is reached.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from time import perf_counter
from typing import Final, TypeAlias

import httptools
import msgspec
from typing_extensions import override

Body: TypeAlias = bytes | bytearray

MAX_STRANGER_BYTES: Final = 256 * 1024
"""Limit of a body without the token.  To decode this many bytes takes 7 ms at worst."""

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Limit of all incomplete bodies together: two of the largest that the API server sends.  A body
that arrives in one piece is never counted."""

MAX_WAITING_BYTES: Final = 16 * 1024
"""A larger review is answered before others are received: they would evict it from the
processor's cache."""

MAX_HEAD_BYTES: Final = 16 * 1024
"""Limit of the request line and the headers, of trailers, and of what is around chunks.

A head that arrives in a single read (at most 256 KiB) is in memory already and is accepted.
"""

KEEP_ALIVE_SECONDS: Final = 120.0
"""Longer than the 90 s for which the API server keeps an idle connection, so that the API server
closes it first."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_READ: Final = frozenset({b"content-type", b"content-length", b"expect"})
"""The header fields that are read; httptools itself obeys those that delimit the request."""

log = logging.getLogger(__name__)


def uncounted(_seconds: float) -> None:
    """Count no answer."""


class Answer(msgspec.Struct):
    """An answer: a body of JSON, or else a line of text for a client that was refused."""

    status: int
    body: bytes
    sent: Callable[[float], None] = uncounted
    """Called after the answer was written, with the seconds since its request began."""
    field: bytes = b""
    """One more line of the head."""


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
    """Called with the outcome of a request that was not passed to `reply`."""


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


class Connection(asyncio.Protocol):
    """One connection; it answers requests in their order."""

    def __init__(self, port: Port) -> None:
        """Prepare a connection that is not made yet: with TLS, a handshake comes first."""
        self.is_made = False
        self.is_over = asyncio.Event()
        self.is_trusted = False
        """Whether the client is the API server."""
        self.idle_since = perf_counter()
        """When the last request was answered."""
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waits_since: float | None = None
        """Since when a request is incomplete; None between requests."""
        self._stuck_since: float | None = None
        """Since when the client does not read its answers; None while it reads."""
        self._idle_bytes = 0
        """Bytes received without a whole head or a part of a body."""
        self._is_ending = False
        """Whether nothing that is still received counts."""
        self.answering: asyncio.Task[None] | None = None
        """Computes an answer that cannot be given in a callback."""
        self._began = 0.0
        self._url, self._fields = b"", dict[bytes, bytes]()
        self._route: Route | None = None
        """How the present request is answered; None before its head is complete."""
        self._body: Body = b""
        self._is_whole = False
        """Whether the present request is complete and is answered next."""
        self._keep = True
        """Whether the client keeps the connection after this request."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, not even a part of one."""
        return self._waits_since is None and self.answering is None

    # What the transport calls.

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport, self.is_made = transport, True
        self._waits_since = perf_counter()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._port.release(self)
        if self.answering is not None:
            self.answering.cancel()
        elif self._route is not None:
            self._route.refused("disconnected", perf_counter() - self._began)
        self._is_ending, self._route, self._body = True, None, b""
        self.is_over.set()

    @override
    def data_received(self, data: bytes) -> None:
        self._answer()
        if self._is_ending:
            return
        self._idle_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # its answer was the last one in HTTP/1.1
            self._end()
        except httptools.HttpParserError:
            self._fail(HTTPStatus.BAD_REQUEST)
        if self._idle_bytes > MAX_HEAD_BYTES:
            self._fail(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._body and not self._is_whole:
            self._port.hold(self, len(self._body))

    @override
    def eof_received(self) -> None:
        self._answer()

    @override
    def pause_writing(self) -> None:
        self._stuck_since = perf_counter()
        if self._transport is not None:
            self._transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        self._stuck_since = None
        if self._transport is not None:
            self._transport.resume_reading()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request, after the one before was answered."""
        self._answer()
        self._began = self._waits_since = perf_counter()
        self._url, self._fields = b"", {}

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field, of the head or of trailers."""
        name = name.lower()
        if name in _READ:
            self._fields[name] = value

    def on_headers_complete(self) -> None:
        """Find the route, and refuse a request that has none before its body is read."""
        self._idle_bytes = 0
        if self._is_ending or self.answering is not None:
            return
        path = self._url.partition(b"?")[0].decode("latin-1")
        self._route = route = self._port.route_of(path)
        if route is None:
            self._fail(HTTPStatus.NOT_FOUND)
            return
        self.is_trusted |= route.is_trusted
        if self._parser.get_method() != route.method:
            self._refuse_method(route)
        elif route.method == b"POST" and self._content_type != b"application/json":
            reason = "the content type must be application/json"
            self._refuse(415, "wrong_content_type", reason)
        elif self._declared > route.max_bytes:
            self._refuse_size(route)
        elif self._fields.get(b"expect", b"").lower() == b"100-continue":
            self._write(_CONTINUE)

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        self._idle_bytes = 0
        route = self._route
        if route is None or self._is_ending:
            return
        if self._body:
            # Appending must not copy what came before.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += part
        else:
            self._body = part
        if len(self._body) > route.max_bytes:
            self._refuse_size(route)

    def on_message_complete(self) -> None:
        """Answer the request."""
        self._idle_bytes = 0
        if self._is_ending:
            return
        if self.answering is not None or self._route is None:
            # The client did not wait for its answer; it sends this request again.
            self._end(after=self.answering)
            return
        self._is_whole, self._keep = True, self._parser.should_keep_alive()
        if len(self._body) > MAX_WAITING_BYTES:
            self._answer()
        else:
            self._port.answer_soon(self)

    # How requests end.

    def decide(self) -> Reply | None:
        """Return the answer to the request that is whole, None if there is none."""
        route, body = self._route, self._body
        if route is None or not self._is_whole:
            return None
        self._port.release(self)
        self._is_whole, self._route, self._body, self._waits_since = False, None, b"", None
        return route.reply(body)

    def send(self, reply: Reply | None) -> None:
        """Send what was decided."""
        if isinstance(reply, Answer):
            self._send(reply, keep=self._keep)
        elif reply is not None:
            self.answering = self._loop.create_task(self._finish(reply))

    def _answer(self) -> None:
        """Answer a request that is whole before anything else happens."""
        self.send(self.decide())

    async def _finish(self, answer: Coroutine[None, None, Answer]) -> None:
        found = await answer
        self.answering = None
        self._send(found, keep=self._keep)

    def _send(self, answer: Answer, *, keep: bool) -> None:
        """Write an answer, and count it."""
        is_last = self._is_ending or self._port.is_retired
        keep = keep and answer.status == HTTPStatus.OK and not is_last
        self._write(_encode(answer, self._port.date, keep=keep))
        now = perf_counter()
        self._waits_since, self.idle_since = None, now
        if not keep:
            self._end()
        answer.sent(now - self._began)

    def _fail(self, status: HTTPStatus) -> None:
        """Answer something that is no request, or none in time, and end the connection."""
        if self.answering is not None:
            self._end(after=self.answering)
        elif not self._is_ending:
            self._port.release(self)
            self._body = b""
            self._send(Answer(status, status.phrase.encode()), keep=False)

    def _refuse(self, status: int, outcome: str, reason: str, field: bytes = b"") -> None:
        """Answer a request before its body is complete, and end the connection."""
        route, self._route, self._body = self._route, None, b""
        self._port.release(self)
        self._send(Answer(status, reason.encode(), field=field), keep=False)
        if route is not None:
            route.refused(outcome, perf_counter() - self._began)

    def _refuse_method(self, route: Route) -> None:
        reason = f"only {route.method.decode()} is served here"
        self._refuse(405, "wrong_method", reason, b"allow: %s\r\n" % route.method)

    def _refuse_size(self, route: Route) -> None:
        reason = f"the request is larger than {route.max_bytes} bytes"
        self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", reason)

    def overload(self) -> None:
        """Refuse the incomplete request, whose body must be dropped."""
        self._refuse(503, "overloaded", "too many large requests at once")

    def expire(self, now: float) -> None:
        """End the connection if it has exceeded one of its times."""
        limit = self._port.request_seconds
        if self.answering is not None:
            return  # it has a limit of its own
        if self._is_ending or self._stuck_since is not None:
            # The client does not read what it is sent.
            if now - (self._stuck_since or self.idle_since) > limit:
                self.abort()
        elif self._waits_since is not None:
            if now - self._waits_since > limit:
                self._fail(HTTPStatus.REQUEST_TIMEOUT)
        elif now - self.idle_since > KEEP_ALIVE_SECONDS:
            self._end()

    def finish(self) -> None:
        """End the connection after the request in progress; its port is retired."""
        if self.is_idle:
            self._end()

    def abort(self) -> None:
        """End the connection, even during a request."""
        if self._transport is not None:
            self._transport.abort()

    def _end(self, after: asyncio.Task[None] | None = None) -> None:
        """End the connection when all was written, and the answer of a task too."""
        self._is_ending = True
        if after is None and self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    @property
    def _content_type(self) -> bytes:
        """The media type, without parameters."""
        return self._fields.get(b"content-type", b"").partition(b";")[0].strip().lower()

    @property
    def _declared(self) -> int:
        """The declared length, 0 if there is none; the parser has checked it."""
        return int(self._fields.get(b"content-length", b"0"))


def _encode(answer: Answer, date: bytes, *, keep: bool) -> bytes:
    """Return the bytes of an answer: JSON if it is a success or no text, else a line of text."""
    status, body = answer.status, answer.body
    if keep:
        return (
            b"HTTP/1.1 200 OK\r\ndate: %s\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (date, len(body), body)
        )
    is_json = body.startswith(b"{")
    content_type = b"application/json" if is_json else b"text/plain; charset=utf-8"
    if not is_json:
        body = body.replace(b"\n", b" ") + b"\n"
    phrase = HTTPStatus(status).phrase.encode()
    line = b"HTTP/1.1 %d %s\r\ndate: %s\r\n%s" % (status, phrase, date, answer.field)
    fields = b"connection: close\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
    return line + fields % (content_type, len(body)) + body
