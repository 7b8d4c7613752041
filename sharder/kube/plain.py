"""HTTP/1.1 by h11, for commands: aiohttp takes longer to import than they run."""

import asyncio
import zlib
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import h11

from sharder.kube.access import Access

_GZIP: Final = 31
"""The argument of zlib for a stream with a header of gzip."""
_PIECE: Final = 64 * 1024


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


class _Connection:
    """A connection, with one request at a time."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    async def ask(self, head: h11.Request, body: bytes) -> h11.Response:
        """Send a request, and return the beginning of its answer."""
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()
        while not isinstance(answer := await self._next(), h11.Response):
            pass  # It is announced.
        return answer

    async def body(self, encoding: str | None, max_bytes: int | None) -> bytes:
        """Return the rest of the answer."""
        unpack = zlib.decompressobj(_GZIP).decompress if encoding == "gzip" else bytes
        parts, size = list[bytes](), 0
        while isinstance(event := await self._next(), h11.Data):
            parts.append(unpack(event.data))
            size += len(parts[-1])
            if max_bytes is not None and size > max_bytes:
                raise TooLong
        return b"".join(parts)

    def can_go_on(self) -> bool:
        """Return whether another request can follow, and get ready for it."""
        _, has_ended = self._http.trailing_data
        if has_ended or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        self._writer.transport.abort()

    async def _next(self) -> object:
        """Return the next event of the answer."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_PIECE))
        return event


class Plain:
    """Connections to one API server without a proxy; one for each request that runs."""

    def __init__(self, access: Access) -> None:
        self._access, self._url = access, urlsplit(access.server)
        self._idle: list[_Connection] = []

    async def exchange(
        self, request: Request, on_head: Callable[[int, str], None], max_bytes: int | None
    ) -> bytes:
        """Send a request, call `on_head` with status and date, and return the body.

        Raises:
            OSError: there is no complete answer.
            TooLong: the body has more than `max_bytes`; the connection is closed.
        """
        try:
            async with asyncio.timeout(request.seconds):
                connection, head = await self._send(request)
                try:
                    fields = {name: value.decode("latin-1") for name, value in head.headers}
                    on_head(head.status_code, fields.get(b"date", ""))
                    body = await connection.body(fields.get(b"content-encoding"), max_bytes)
                except BaseException:
                    connection.close()
                    raise
        except (h11.ProtocolError, zlib.error) as error:
            raise ConnectionError(f"the answer is incomplete: {error}") from error
        if connection.can_go_on():
            self._idle.append(connection)
        else:
            connection.close()
        return body

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._idle:
            connection.close()

    async def _send(self, request: Request) -> tuple[_Connection, h11.Response]:
        """Send the request; a read again if the server has closed the idle connection."""
        fields = {"Host": self._url.netloc, "Accept-Encoding": "gzip", **request.headers}
        fields["Content-Length"] = str(len(request.body or b""))
        head = h11.Request(
            method=request.method,
            target=f"{self._url.path}{request.target}",
            headers=[*fields.items()],
        )
        while True:
            is_reused = bool(self._idle)
            connection = self._idle.pop() if is_reused else await self._connect()
            try:
                return connection, await connection.ask(head, request.body or b"")
            except (OSError, h11.ProtocolError):
                connection.close()
                if not is_reused or request.method != "GET":
                    raise
            except BaseException:
                connection.close()
                raise

    async def _connect(self) -> _Connection:
        access, url = self._access, self._url
        is_tls = url.scheme == "https"
        return _Connection(
            *await asyncio.open_connection(
                url.hostname,
                url.port or (443 if is_tls else 80),
                ssl=access.trust if is_tls else None,
                server_hostname=access.server_name if is_tls else None,
            )
        )
