"""HTTP/1.1 to one API server: requests side by side, and streams.

httptools parses.  A client with a pool, redirects and cookies, such as aiohttp, takes longer to
import than a command to run, and most of the time that a write needs.
"""

import asyncio
import base64
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import httptools
from typing_extensions import Buffer, override

from sharder.core.errors import ConfigError
from sharder.kube.access import Access
from sharder.kube.errors import refusal

RECORD_BYTES: Final = 16 * 1024
"""The most that one record of TLS carries (RFC 8446, section 5.1), and one read of it returns."""
FLOOD_BYTES: Final = 64 * 1024
"""After a chunk of this size, reading continues without a pause.

With a pause after each chunk, a client that writes large objects could fill the stream faster than
it is read, and what other clients write would be seen ever later.
"""
IDLE_SECONDS: Final = 15.0
"""A connection that was not used for so long is closed, long before the server does so."""
_UNREAD_BYTES: Final = 256 * 1024
"""With so many bytes that nobody has taken yet, reading pauses."""
_CONNECT_SECONDS: Final = 10.0
"""Limit of the connection of a stream."""
_GZIP: Final = 31
"""The argument of zlib for a stream with a header of gzip."""
_PORTS: Final = {"http": 80, "https": 443}


class TooLong(Exception):
    """The answer is longer than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the API server."""

    method: str
    target: str
    """Path and query, escaped; below the path of the server's URL."""
    headers: Mapping[str, str]
    body: bytes | None = None
    seconds: float
    """Limit on the time until the answer is complete, or on the silence of a stream."""

    @property
    def what(self) -> str:
        """The request in messages, such as `PATCH /api/v1/...`."""
        return f"{self.method} {self.target.partition('?')[0]}"


class Records(ssl.SSLObject):
    """A TLS connection that is read in pieces of a record.

    The event loop asks for 256 KiB each time: so large a buffer is mapped, touched and unmapped
    again for every event of a watch.
    """

    @override
    def read(self, len: int = RECORD_BYTES, buffer: Buffer | None = None) -> bytes:
        return super().read(min(len, RECORD_BYTES), buffer)


class Connection(asyncio.Protocol):
    """A connection, with one request at a time."""

    def __init__(self, others: set["Connection"]) -> None:
        """It is among the others while it is open."""
        self.transport: asyncio.Transport | None = None
        self.status = 0
        """The status of the answer, 0 before its head is complete."""
        self.fields = dict[bytes, bytes]()
        """The header of the answer; its names are in lower case."""
        self.error: Exception | None = None
        """Why the answer is not complete."""
        self.is_whole = False
        """Whether the answer is complete."""
        self.is_kept = False
        """Whether another request can follow."""
        self.idle_since = 0.0
        self._others = others
        self._parts = list[bytes]()
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)

    # What the transport calls.

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._others.add(self)

    @override
    def data_received(self, data: bytes) -> None:
        if self.is_kept:
            self.abort()  # nothing was asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.error = ConnectionError(f"the answer is not HTTP: {error!r}")
            self.abort()
        if self._unread > _UNREAD_BYTES:
            self.pause()
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_kept = False
        if not self.is_whole:
            has_end = {b"content-length", b"transfer-encoding"} & self.fields.keys()
            self.is_whole = exc is None and self.status > 0 and not has_end
        if not self.is_whole:
            self.error = self.error or exc or ConnectionResetError("the answer is incomplete")
        self._wake()
        self._others.discard(self)

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head, or of trailers."""
        self.fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Note the status of an answer that is not just announced."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(part)
        self._unread += len(part)

    def on_message_complete(self) -> None:
        """Note the end of an answer."""
        if self.status:
            self.is_whole, self.is_kept = True, self._parser.should_keep_alive()
        else:
            self.fields.clear()

    # What requests call.

    def send(self, head: bytes, body: bytes) -> None:
        """Begin a request."""
        self.status, self.error, self.is_whole, self.is_kept = 0, None, False, False
        self.fields.clear()
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self.transport.write(head + body)

    async def head(self) -> None:
        """Wait for the head of the answer."""
        while not self.status:
            await self._more()

    async def part(self) -> bytes | None:
        """Return the next part of the answer's body, None at its end."""
        while not self._parts:
            if self.is_whole:
                return None
            await self._more()
        part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        if self._unread > _UNREAD_BYTES:
            self.resume()
        self._unread = 0
        return part

    async def body(self, max_bytes: int | None = None) -> bytes:
        """Return the rest of the answer."""
        is_gzip = self.fields.get(b"content-encoding") == b"gzip"
        unpack = zlib.decompressobj(_GZIP).decompress if is_gzip else bytes
        parts, size = list[bytes](), 0
        while (part := await self.part()) is not None:
            parts.append(unpack(part))
            size += len(parts[-1])
            if max_bytes is not None and size > max_bytes:
                raise TooLong
        return b"".join(parts)

    async def lines(self, *, silent: float, pause: float) -> AsyncIterator[bytes]:
        """Yield lines of any length, until the server ends the answer or is silent too long.

        What comes within `pause` seconds after a small chunk is read together: to decrypt and to
        parse cost as much for one line as for ten.
        """
        rest = bytearray()
        while True:
            try:
                async with asyncio.timeout(silent):
                    chunk = await self.part()
            except TimeoutError:
                return
            if chunk is None:
                return
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                rest += line
                yield bytes(rest)
                rest.clear()
            rest += tail
            if pause and len(chunk) < FLOOD_BYTES:
                self.pause()
                await asyncio.sleep(pause)
                self.resume()

    def pause(self) -> None:
        """Read nothing until `resume`."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once; a clean TLS shutdown waits for the other side."""
        self.is_kept = False
        if self.transport is not None:
            self.transport.abort()

    async def _more(self) -> None:
        """Wait until more of the answer is there."""
        if self.error is not None:
            raise self.error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connections:
    """The connections to one API server; one for each request that runs.

    They have no limit: each caller limits its own concurrency, and the renewal of a Lease, or a
    watch, must never wait for writes.
    """

    def __init__(self, access: Access) -> None:
        access.trust.sslobject_class = Records
        self._access, self._url = access, urlsplit(access.server)
        self._proxy = urlsplit(access.proxy) if access.proxy else None
        if self._proxy is not None and self._proxy.scheme != "http":
            raise ConfigError("the URL of a proxy begins with http://; no other proxies are known")
        self._to_proxy = _signed_in(self._proxy) if self._proxy else {}
        self._is_forwarded = self._proxy is not None and self._url.scheme != "https"
        """Whether a proxy reads the requests, because they are not encrypted."""
        self._open = set[Connection]()
        self._idle = list[Connection]()
        """The one that was used last is last; some are closed meanwhile."""
        self._timer: asyncio.TimerHandle | None = None

    async def exchange(
        self, request: Request, on_head: Callable[[int, str], None], max_bytes: int | None
    ) -> bytes:
        """Send a request, call `on_head` with status and date, and return the body.

        Raises:
            OSError: there is no complete answer.
            TooLong: the body has more than `max_bytes`; the connection is closed.
        """
        async with asyncio.timeout(request.seconds):
            connection = await self._answered(request, {"Accept-Encoding": "gzip"})
            try:
                _tell(connection, on_head)
                body = await connection.body(max_bytes)
            except zlib.error as error:
                connection.abort()
                raise ConnectionError(f"the answer is incomplete: {error}") from error
            except BaseException:
                connection.abort()
                raise
        self._keep(connection)
        return body

    @asynccontextmanager
    async def stream(
        self, request: Request, on_head: Callable[[int, str], None], *, pause: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Send a request, call `on_head` with status and date, and yield the lines of the answer.

        Raises:
            ApiError: the API server refuses it.
            OSError: the stream could not be opened, or broke.
        """
        async with asyncio.timeout(request.seconds):
            connection = await self._answered(request, {})
        try:
            _tell(connection, on_head)
            if connection.status >= 300:
                async with asyncio.timeout(request.seconds):
                    raise refusal(connection.status, await connection.body(), request.what)
            yield connection.lines(silent=request.seconds, pause=pause)
        finally:
            connection.abort()

    async def close(self) -> None:
        """End all requests, and close the connections."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in tuple(self._open):
            connection.abort()

    async def _answered(self, request: Request, more: Mapping[str, str]) -> Connection:
        """Send a request and return the connection with the head of its answer.

        A read is sent again if the server has closed the idle connection.
        """
        head, body = self._head_of(request, more), request.body or b""
        while True:
            connection = self._idle.pop() if self._idle else await self._connected()
            is_reused = connection.idle_since > 0
            if is_reused and not connection.is_kept:
                continue
            try:
                connection.send(head, body)
                await connection.head()
            except OSError:
                connection.abort()
                if not is_reused or request.method != "GET":
                    raise
            except BaseException:
                connection.abort()
                raise
            else:
                return connection

    def _keep(self, connection: Connection) -> None:
        """Use a connection again, unless nothing can follow on it."""
        if not connection.is_kept:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(IDLE_SECONDS, self._expire)

    def _expire(self) -> None:
        """Close what was idle for too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() - IDLE_SECONDS
        while self._idle and self._idle[0].idle_since <= end:
            self._idle.pop(0).abort()
        self._timer = loop.call_later(IDLE_SECONDS, self._expire) if self._idle else None

    def _head_of(self, request: Request, more: Mapping[str, str]) -> bytes:
        """Return the head of a request."""
        target = f"{self._url.path}{request.target}"
        fields = {"Host": self._url.netloc, **more, **request.headers}
        if self._is_forwarded:
            target = f"http://{self._url.netloc}{target}"
            fields |= self._to_proxy
        if request.method != "GET":
            fields["Content-Length"] = str(len(request.body or b""))
        return _head(request.method, target, fields)

    async def _connected(self) -> Connection:
        loop, access = asyncio.get_running_loop(), self._access
        url = self._proxy or self._url
        is_tls = self._proxy is None and url.scheme == "https"
        async with asyncio.timeout(_CONNECT_SECONDS):
            transport, connection = await loop.create_connection(
                lambda: Connection(self._open),
                url.hostname or "",
                url.port or _PORTS.get(url.scheme, 80),
                ssl=access.trust if is_tls else None,
                server_hostname=access.server_name if is_tls else None,
            )
            if self._proxy is None or self._is_forwarded:
                return connection
            return await self._tunnel(transport, connection)

    async def _tunnel(self, transport: asyncio.Transport, through: Connection) -> Connection:
        """Let a proxy connect us, and encrypt what goes through."""
        host, port = self._url.hostname or "", self._url.port or 443
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        through.send(_head("CONNECT", place, {"Host": place, **self._to_proxy}), b"")
        await through.head()
        if through.status >= 300:
            through.abort()
            raise ConnectionError(f"the proxy answered CONNECT with {through.status}")
        connection = Connection(self._open)
        encrypted = await asyncio.get_running_loop().start_tls(
            transport,
            connection,
            self._access.trust,
            server_hostname=self._access.server_name or host,
        )
        if encrypted is None:
            raise ConnectionResetError("the proxy has ended the connection")
        self._open.discard(through)
        connection.connection_made(encrypted)
        return connection


def _signed_in(proxy: SplitResult) -> dict[str, str]:
    """Return the header with the user and the password of a proxy."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _tell(connection: Connection, on_head: Callable[[int, str], None]) -> None:
    on_head(connection.status, connection.fields.get(b"date", b"").decode("latin-1"))


def _head(method: str, target: str, fields: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
    if any("\r" in line or "\n" in line for line in lines):
        raise ConnectionError("a token or another field of the request has several lines")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
