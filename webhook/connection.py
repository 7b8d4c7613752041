"""One HTTP connection: uvicorn's protocol on httptools, with limits on what is no body.

httptools has none of its own: it takes a head of any length, at any pace.  Bodies are limited
where they are read (`webhook.limits`).
"""

from http import HTTPStatus

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEAD_BYTES = 16 * 1024
"""Request line and headers, and likewise trailers.

A head that comes in a single read (256 KiB at most) is in memory already and passes.
"""


class Connection(HttpToolsProtocol):
    """Counts bytes that bring a request no further, and knows since when it is incomplete."""

    _receiving_since: float | None = None
    _idle_bytes = 0
    """Received since the request began, in reads without any of its body."""
    _advanced = False
    _refused = False

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
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
        super().on_message_complete()

    def expire(self, now: float, limit: float) -> None:
        """Give up on a request that has not been complete for `limit` seconds."""
        if self._receiving_since is None:
            if self._is_stalled():
                self._receiving_since = now
        elif now - self._receiving_since > limit:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def abort(self) -> None:
        """Cut the connection, whatever is under way."""
        self.transport.abort()

    def _is_stalled(self) -> bool:
        """Tell whether neither a request nor the keep-alive timer runs.

        So it is before the first request, and after blank lines: they stop uvicorn's timer and
        begin nothing.
        """
        exchange = self._exchange
        is_answered = exchange is None or exchange.response_complete
        return is_answered and self.timeout_keep_alive_task is None

    @property
    def _exchange(self) -> RequestResponseCycle | None:
        """The last request and its answer; uvicorn's annotation leaves out that there is none."""
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
