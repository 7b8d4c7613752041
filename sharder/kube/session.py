"""HTTP by aiohttp: many requests at once, and streams."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypedDict

import aiohttp
from yarl import URL

from sharder.kube.access import Access
from sharder.kube.errors import refusal

FLOOD_BYTES: Final = 64 * 1024
"""After a chunk of this size, reading continues without a pause.

With a pause after each chunk, a client that writes large objects could fill the stream faster than
it is read, and what other clients write would be seen ever later.
"""
_CONNECT_SECONDS: Final = 10.0
"""Limit of the connection of a stream."""


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


class Route(TypedDict, total=False):
    """How requests reach an API server, as aiohttp takes it."""

    proxy: str
    server_hostname: str


def route_of(access: Access) -> Route:
    """Return how requests reach the API server."""
    route = Route()
    if access.proxy:
        route["proxy"] = access.proxy
    if access.server_name:
        route["server_hostname"] = access.server_name
    return route


class Session:
    """Connections to one API server."""

    def __init__(self, access: Access) -> None:
        # No limit on connections: each caller limits its own concurrency, and the renewal of a
        # Lease, or a watch, must never wait for writes.
        connector = aiohttp.TCPConnector(limit=0, ssl=access.trust)
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        )
        self._server = access.server
        self._route = route_of(access)

    async def exchange(
        self, request: Request, max_bytes: int | None = None
    ) -> tuple[int, str, bytes]:
        """Send a request; return status, date and body of the answer.

        Raises:
            OSError: there is no complete answer.
            TooLong: the body has more than `max_bytes`; the connection is closed.
        """
        try:
            async with self._session.request(
                request.method,
                self._url(request),
                headers=request.headers,
                data=request.body,
                timeout=aiohttp.ClientTimeout(total=request.seconds),
                allow_redirects=False,
                **self._route,
            ) as response:
                date = response.headers.get("Date", "")
                return response.status, date, await _read(response, max_bytes)
        except aiohttp.ClientError as error:
            raise plain_error(error) from error

    @asynccontextmanager
    async def stream(
        self, request: Request, on_head: Callable[[int, str], None], *, pause: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Send a request, call `on_head` with status and date, and yield the lines of the answer.

        Raises:
            ApiError: the API server refuses it.
            OSError: the stream could not be opened, or broke.
        """
        timeout = aiohttp.ClientTimeout(sock_read=request.seconds, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.get(
                self._url(request),
                headers=request.headers,
                timeout=timeout,
                allow_redirects=False,
                **self._route,
            ) as response:
                on_head(response.status, response.headers.get("Date", ""))
                if response.status >= 300:
                    raise refusal(response.status, await response.read(), request.what)
                try:
                    yield _split(response, pause=pause)
                finally:
                    _hang_up(response)
        except aiohttp.ClientError as error:
            raise plain_error(error) from error

    async def close(self) -> None:
        """End all requests, and close the connections."""
        await self._session.close()

    def _url(self, request: Request) -> URL:
        return URL(f"{self._server}{request.target}", encoded=True)


async def _read(response: aiohttp.ClientResponse, max_bytes: int | None) -> bytes:
    if max_bytes is None:
        return await response.read()
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            _hang_up(response)
            raise TooLong
    return b"".join(parts)


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an unfinished stream at once.

    A clean TLS shutdown waits up to 30 s for the other side.
    """
    transport = _transport_of(response)
    if transport is not None:
        transport.abort()


async def _split(response: aiohttp.ClientResponse, *, pause: float) -> AsyncIterator[bytes]:
    """Yield lines of any length; aiohttp's own `readline` rejects long lines.

    What comes within `pause` seconds after a small chunk is read together.  The response's timeout
    ends the stream without an error, as if the server had closed it.
    """
    rest = bytearray()
    try:
        async for chunk in response.content.iter_any():
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                rest += line
                yield bytes(rest)
                rest.clear()
            rest += tail
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
