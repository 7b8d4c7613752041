"""HTTP by aiohttp: many requests at once, and streams."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from sharder.kube.access import Access

FLOOD_BYTES: Final = 64 * 1024
"""After a chunk of this size, reading continues without a pause.

With a pause after each chunk, a client that writes large objects could fill the stream faster than
it is read, and what other clients write would be seen ever later.
"""
CONNECT_SECONDS: Final = 10.0
"""Limit of the connection of a stream."""
UNACKNOWLEDGED_SECONDS: Final = 5.0
"""How late bytes can arrive: sent under a Lease, they come before another shard can take it."""
_IDLE_SECONDS: Final = 30
"""After so long without a byte, the kernel asks whether the other side is there."""
_AUTOMATIC: Final = ("Accept", "User-Agent", "Content-Type", "Accept-Encoding")


class TooLong(Exception):
    """The answer is longer than allowed."""


def _socket(address: AddrInfoType) -> socket.socket:
    """Return a socket that gives up what the other side has not acknowledged in time.

    Otherwise the kernel would go on to send a write until the network heals, even when its sender
    has given it up, lost its Lease, or died; and to wait for a dead host would never end.
    """
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
        milliseconds = int(UNACKNOWLEDGED_SECONDS * 1000)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, int(UNACKNOWLEDGED_SECONDS))
    return made


def _once() -> aiohttp.ClientMiddlewareType:
    """Return what lets a request be sent one time only.

    aiohttp sends a PUT or a DELETE again if the connection breaks: it would be carried out twice,
    and so late that its sender may have lost its Lease.
    """
    is_sent = False

    async def send(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        nonlocal is_sent
        if is_sent:
            raise aiohttp.ServerDisconnectedError
        is_sent = True
        return await handler(request)

    return send


class Session:
    """Connections to one API server."""

    def __init__(self, access: Access, *, as_is: bool = False) -> None:
        """With `as_is`, requests get no headers of ours, and answers stay compressed."""
        # No limit on connections: each caller limits its own concurrency, and the renewal of a
        # Lease, or a watch, must never wait for writes.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=access.trust, socket_factory=_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=not as_is,
            skip_auto_headers=_AUTOMATIC if as_is else None,
        )
        self._access = access

    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, which covers the body
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """Send a request and yield the answer, whose body is not read yet.

        `target` is path and query, escaped, below the path of the server's URL.

        Raises:
            OSError: there is no answer, or it broke.
        """
        try:
            async with self._session.request(
                method,
                URL(f"{self._access.server}{target}", encoded=True),
                headers=headers,
                data=body,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
                middlewares=() if method == "GET" else (_once(),),
            ) as response:
                yield response
        except aiohttp.ClientError as error:
            raise plain_error(error) from error

    async def close(self) -> None:
        """End all requests, and close the connections."""
        await self._session.close()


async def read(response: aiohttp.ClientResponse, max_bytes: int | None) -> bytes:
    """Return the body; `TooLong` if it has more than `max_bytes`, and the connection is closed."""
    if max_bytes is None:
        return await response.read()
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            hang_up(response)
            raise TooLong
    return b"".join(parts)


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an unfinished stream at once.

    A clean TLS shutdown waits up to 30 s for the other side.
    """
    transport = _transport_of(response)
    if transport is not None:
        transport.abort()


class LineSplitter:
    """Makes lines of chunks, in a time that grows with their bytes alone."""

    def __init__(self) -> None:
        self.rest = bytearray()
        """The beginning of the next line."""

    def split(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the next chunk."""
        *lines, tail = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self.rest + lines[0])
            self.rest.clear()
        self.rest += tail
        return lines


async def lines_of(response: aiohttp.ClientResponse, *, pause: float) -> AsyncIterator[bytes]:
    """Yield lines of any length; aiohttp's own `readline` rejects long lines.

    What comes within `pause` seconds after a small chunk is read together.  The response's timeout
    ends the stream without an error, as if the server had closed it.
    """
    splitter = LineSplitter()
    try:
        async for chunk in response.content.iter_any():
            for line in splitter.split(chunk):
                yield line
            if pause and len(chunk) < FLOOD_BYTES:
                await _leave_alone(response, pause)
    except TimeoutError:
        return


async def _leave_alone(response: aiohttp.ClientResponse, seconds: float) -> None:
    """Read nothing for so long: to decrypt and to parse cost as much for one line as for ten."""
    transport = _transport_of(response)
    if transport is not None:
        transport.pause_reading()
        await asyncio.sleep(seconds)
        transport.resume_reading()


def _transport_of(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    return None if response.connection is None else response.connection.transport


def plain_error(error: aiohttp.ClientError) -> OSError:
    """Return the error as an OSError."""
    return error if isinstance(error, OSError) else ConnectionError(str(error) or repr(error))
