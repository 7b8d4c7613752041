"""One HTTP connection: uvicorn's protocol on httptools, with limits on everything but bodies.

httptools has no limits of its own: it accepts a head of any length, at any pace.  Bodies are
limited where they are read (`webhook.body`).
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from fastapi import Request
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from webhook.at_once import AtOnce
from webhook.endpoint import TRUST

CUT = "cut"
"""The key in a request's state under which a function aborts its connection."""

MAX_HEAD_BYTES = 16 * 1024
"""Limit of the request line and the headers, and of trailers.

A head that arrives in a single read (at most 256 KiB) is in memory already and is accepted.
"""


class Connection(HttpToolsProtocol):
    """Counts bytes that do not advance a request, and records since when it is incomplete."""

    is_made = False
    """Whether the connection is ready for requests: a TLS handshake comes first."""
    is_trusted = False
    """Whether the client is the API server; set by `trust`."""
    idle_since = 0.0
    """When the last request was complete."""
    _receiving_since: float | None = None
    _idle_bytes = 0
    """Bytes since the request began, in reads that contain no part of its body."""
    _advanced = False
    _refused = False
    _is_waiting = False
    """Whether a review was taken and waits for its answer."""

    def __init__(
        self, config: Config, server_state: ServerState, at_once: AtOnce | None = None
    ) -> None:
        """Prepare a connection that is not made yet; `at_once` is offered requests first."""
        super().__init__(config, server_state, {TRUST: self.trust, CUT: self.abort})
        self.is_over = asyncio.Event()
        self._at_once = at_once

    def trust(self) -> None:
        """Mark the client as the API server."""
        self.is_trusted = True

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, not even a part of one."""
        if self._is_waiting or self._receiving_since is not None:
            return False
        exchange = self._exchange
        return exchange is None or exchange.response_complete

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.is_made = True
        super().connection_made(transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # uvicorn cancels its timer only after an orderly end; the timer keeps all of this in
        # memory.
        self._unset_keepalive_if_required()
        # These refer back to the connection, which would stay in memory until a garbage
        # collection.
        self.cycle = self.scope = None  # type: ignore[assignment]  # as before the first request
        self.app_state = {}
        self.is_over.set()

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._answer_waiting()
        if not self._is_taken(data):
            self.parse(data)

    @override
    def eof_received(self) -> None:
        self._answer_waiting()
        super().eof_received()

    @override
    def shutdown(self) -> None:
        self._answer_waiting()
        super().shutdown()

    def parse(self, data: bytes) -> None:
        """Pass the data to uvicorn, unless the connection has ended in the meantime."""
        self._is_waiting = False
        if self.is_over.is_set():
            return
        self._advanced = False
        super().data_received(data)
        if not self._advanced:
            self._idle_bytes += len(data)
            if self._idle_bytes > MAX_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._receiving_since = self.loop.time()
        self._idle_bytes = 0

    @override
    def on_headers_complete(self) -> None:
        self._advanced = True
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._advanced = True
        self._receiving_since = None
        self.idle_since = self.loop.time()
        super().on_message_complete()

    def _is_taken(self, data: bytes) -> bool:
        """Pass a whole review to `at_once` if nothing else is in progress."""
        at_once = self._at_once
        if at_once is None or not self.is_idle or self.flow.write_paused:
            return False
        self._is_waiting = True  # until `reply` or `parse`, which can come before `take` returns
        if at_once.take(data, self):
            return True
        self._is_waiting = False
        return False

    def _answer_waiting(self) -> None:
        """Answer the review that was taken, before other data is handled."""
        if self._is_waiting and self._at_once is not None:
            self._at_once.answer()

    def reply(self, answer: bytes) -> None:
        """Send the answer to the review that was taken."""
        self._is_waiting = False
        if self.transport.is_closing():
            return
        self.transport.write(answer)
        self.idle_since = self.loop.time()
        self._idle_bytes = 0
        if self.timeout_keep_alive_task is None:
            self.on_response_complete()

    @override
    def timeout_keep_alive_handler(self) -> None:
        """Close the connection unless it was used: answers of `at_once` do not reset the timer."""
        self._answer_waiting()
        rest = self.idle_since + self.timeout_keep_alive - self.loop.time()
        if rest <= 0:
            super().timeout_keep_alive_handler()
        else:
            later = self.loop.call_later(rest, self.timeout_keep_alive_handler)
            self.timeout_keep_alive_task = later

    def expire(self, now: float, limit: float) -> None:
        """Reject a request that has not been complete for `limit` seconds."""
        if self._receiving_since is None:
            if self._is_stalled():
                self._receiving_since = now
        elif now - self._receiving_since > limit:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def abort(self) -> None:
        """Abort the connection, even during a request."""
        self.transport.abort()

    def _is_stalled(self) -> bool:
        """Return whether neither a request nor the keep-alive timer runs.

        This is the state before the first request, and after blank lines, which stop uvicorn's
        timer and begin no request.
        """
        exchange = self._exchange
        is_answered = exchange is None or exchange.response_complete
        return is_answered and not self._is_waiting and self.timeout_keep_alive_task is None

    @property
    def _exchange(self) -> RequestResponseCycle | None:
        """The last request and its answer, None before; uvicorn's annotation omits None."""
        return self.cycle

    def _refuse(self, status: HTTPStatus) -> None:
        self._refused = True
        exchange = self._exchange
        if exchange is None or not exchange.response_started:
            head = f"HTTP/1.1 {status} {status.phrase}\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: 0\r\n\r\n".encode())
        if exchange is not None:
            exchange.disconnected = True
            exchange.message_event.set()
        self.transport.close()


def cut(request: Request) -> None:
    """Abort the connection of a request, even during the request."""
    abort: Callable[[], None] = getattr(request.state, CUT)
    abort()
