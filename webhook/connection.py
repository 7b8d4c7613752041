"""One connection of a port, with all of its limits.

httptools parses, and the callback that completes a request answers it by plain calls: a task for
each request would take twice as long.

A client is known as the API server by the token in the path of its requests.  Others may send
little, and are the first to be cut off where a limit of all connections is reached.
"""

import asyncio
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from time import perf_counter
from typing import Final

import httptools
from typing_extensions import override

from webhook.messages import Answer, App, Route, encode, refusal

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Limit of all bodies together that are incomplete or wait for an answer: two of the largest that
the API server sends.  A body that arrives in one piece and is answered at once is not counted."""

MAX_HEAD_BYTES: Final = 16 * 1024
"""Limit of the request line and the headers, of trailers, and of what is around chunks.

A head that arrives in a single read (at most 256 KiB) is in memory already and is accepted.
"""

REQUEST_SECONDS = 10.0
"""Limit of a request to be complete; the API server waits 5 s for its answer by default."""

KEEP_ALIVE_SECONDS: Final = 120.0
"""Longer than the 90 s for which the API server keeps an idle connection, so that the API server
closes it first."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

log = logging.getLogger(__name__)


class Port:
    """What the connections of one port share."""

    def __init__(self, route_of: App) -> None:
        """`route_of` knows the paths."""
        self.route_of = route_of
        self.is_retired = False
        """Whether each connection ends with its next answer."""
        self.date = b""
        """The time, for the header of answers."""
        self._held: dict[Connection, int] = {}
        """The sizes of the bodies; the oldest request is first."""

    def hold(self, connection: "Connection", size: int) -> None:
        """Note the size of a body; refuse the oldest of strangers if all together are large."""
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
        self.answering: asyncio.Task[None] | None = None
        """Computes an answer that cannot be given in a callback."""
        self._port = port
        self._transport: asyncio.Transport
        """Set when the connection is made; nothing below happens before."""
        self._began: float | None = None
        """Since when a request is incomplete; None between requests."""
        self._stuck_since: float | None = None
        """Since when the client does not read its answers; None while it reads."""
        self._idle_bytes = 0
        """Bytes received without a whole head or a part of a body."""
        self._is_ending = False
        """Whether nothing that is still received counts."""
        self._target, self._fields = b"", dict[bytes, bytes]()
        self._route: Route | None = None
        """How the present request is answered; None before its head is complete, and after."""
        self._body = bytearray()
        self._keep = True
        """Whether the client keeps the connection after this request."""
        self.on_header = self._fields.__setitem__  # no call of ours for each field
        self._parser = httptools.HttpRequestParser(self)

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, not even a part of one."""
        return self._began is None

    # What the transport calls.

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport, self.is_made = transport, True
        self._began = perf_counter()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self.answering is not None:
            self.answering.cancel()
        self._drop("disconnected")
        self._is_ending = True
        self.is_over.set()

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._idle_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # its answer was the last one in HTTP/1.1
            self._end()
        except httptools.HttpParserCallbackError:  # a bug of ours
            self.abort()
            raise
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._idle_bytes > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._body:
            self._port.hold(self, len(self._body))

    @override
    def pause_writing(self) -> None:
        self._stuck_since = perf_counter()
        self._transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        self._stuck_since = None
        self._transport.resume_reading()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._began, self._target = perf_counter(), b""
        self._fields.clear()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._target += url

    def on_headers_complete(self) -> None:
        """Find the route, and refuse a request that has none before its body is read."""
        self._idle_bytes = 0
        if self._is_ending or self.answering is not None:
            return
        fields = {name.lower(): value for name, value in self._fields.items()}
        route = self._port.route_of(self._target.partition(b"?")[0].decode("latin-1"), fields)
        if route is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._route = route
        self.is_trusted |= route.is_trusted
        if self._parser.get_method() != route.method:
            reason = f"only {route.method.decode()} is served here"
            self._refuse(405, reason, "wrong_method", b"allow: %s\r\n" % route.method)
        elif route.method == b"POST" and not _is_json(fields.get(b"content-type", b"")):
            self._refuse(415, "the content type must be application/json", "wrong_content_type")
        elif int(fields.get(b"content-length", b"0")) > route.max_bytes:
            self._refuse_size(route)
        elif fields.get(b"expect", b"").lower() == b"100-continue":
            self._write(_CONTINUE)

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        self._idle_bytes = 0
        route = self._route
        if route is None or self._is_ending or self.answering is not None:
            return
        self._body += part
        if len(self._body) > route.max_bytes:
            self._refuse_size(route)

    def on_message_complete(self) -> None:
        """Answer the request."""
        self._idle_bytes = 0
        if self._is_ending:
            return
        if self.answering is not None or self._route is None:
            # The client did not wait for its answer; it sends this request again.
            self._end()
            return
        self._keep = self._parser.should_keep_alive()
        reply = self._route.reply(self._body)
        if isinstance(reply, Answer):
            self._forget()
            self._send(reply)
        else:
            self.answering = asyncio.get_running_loop().create_task(self._finish(reply))
            # A task that is cancelled before it starts leaves its reply open.
            self.answering.add_done_callback(lambda _: reply.close())
            self._port.hold(self, len(self._body))

    # How requests end.

    async def _finish(self, reply: Coroutine[None, None, Answer]) -> None:
        try:
            answer = await reply
        except Exception:
            log.exception("request failed: report this bug")
            answer = refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        self.answering = None
        self._forget()
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        """Write an answer, and count it."""
        is_last = self._is_ending or self._port.is_retired or answer.status != HTTPStatus.OK
        keep = self._keep and not is_last
        self._write(encode(answer, self._port.date, keep=keep))
        self.idle_since = now = perf_counter()
        answer.sent(now - (now if self._began is None else self._began))
        self._began = None
        if not keep:
            self._end()

    def _refuse(
        self, status: int, reason: str = "", outcome: str = "disconnected", more: bytes = b""
    ) -> None:
        """Answer what is no whole request, and end the connection."""
        if self.answering is not None:
            self._end()
        elif not self._is_ending:
            self._drop(outcome)
            self._send(refusal(status, reason, more=more))

    def _refuse_size(self, route: Route) -> None:
        reason = f"the request is larger than {route.max_bytes} bytes"
        self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason, "too_large")

    def _drop(self, outcome: str) -> None:
        """Forget the present request without an answer to it, and count it."""
        route = self._route
        self._forget()
        if route is not None:
            route.refused(outcome, perf_counter() - (self._began or self.idle_since))

    def _forget(self) -> None:
        self._port.release(self)
        self._route, self._body = None, bytearray()

    def overload(self) -> None:
        """Refuse the request, whose body must be dropped."""
        if self.answering is not None:
            self.answering.cancel()
            self.answering = None
        self._refuse(503, "too many large requests at once", "overloaded")

    def expire(self, now: float) -> None:
        """End the connection if it has exceeded one of its times."""
        stuck_since = self._stuck_since
        if stuck_since is not None or (self._is_ending and self.answering is None):
            # The client does not read what it is sent.
            if now - (stuck_since or self.idle_since) > REQUEST_SECONDS:
                self.abort()
        elif self.answering is not None or not self.is_made:
            return  # an answer of a task, and a handshake, have limits of their own
        elif self._began is not None:
            if now - self._began > REQUEST_SECONDS:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        elif now - self.idle_since > KEEP_ALIVE_SECONDS:
            self._end()

    def finish(self) -> None:
        """End the connection after the request in progress; its port is retired.

        After a handshake a request comes at once, and is answered.
        """
        if self.is_made and self.is_idle:
            self._end()

    def abort(self) -> None:
        """End the connection, even during a request."""
        self._transport.abort()

    def _end(self) -> None:
        """End the connection when all was written, and the answer of a task too."""
        self._is_ending = True
        if self.answering is None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def _is_json(content_type: bytes) -> bool:
    """Return whether the media type is JSON, with any parameters."""
    return content_type.partition(b";")[0].strip().lower() == b"application/json"
