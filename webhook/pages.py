"""HTTP of the ports for probes, metrics and people: GET requests of a handful of clients."""

import asyncio
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from time import perf_counter
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import msgspec
from typing_extensions import override

MAX_HEAD_BYTES: Final = 16 * 1024
"""Limit of the request line and the headers."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A GET request, without its body."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """The names are in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer."""

    body: bytes | AsyncGenerator[bytes, None]
    """A body in parts ends with the connection."""
    content_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Request], Awaitable[Page]]


def refused(status: HTTPStatus, why: str = "", **headers: str) -> Page:
    """Return the answer to a request that is refused; the reason is also for people."""
    body = msgspec.json.encode({"detail": why or status.phrase})
    return Page(body=body, status=status, headers=headers)


class Pages:
    """The pages of one port by their paths."""

    def __init__(self, pages: Mapping[str, Handler], *, hosts: Collection[str] = ()) -> None:
        """With `hosts`, refuse requests to servers of other names."""
        self._pages = pages
        self._hosts = hosts

    async def answer(self, request: Request) -> Page:
        """Answer a request."""
        if self._hosts and _host_of(request) not in self._hosts:
            return refused(HTTPStatus.BAD_REQUEST, "this server has another name")
        page = self._pages.get(request.path)
        if page is None:
            return refused(HTTPStatus.NOT_FOUND)
        try:
            return await page(request)
        except Exception:  # others wait for their answers
            log.exception("page failed")
            return refused(HTTPStatus.INTERNAL_SERVER_ERROR)


def _host_of(request: Request) -> str | None:
    with suppress(ValueError):
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    return None


class PageConnection(asyncio.StreamReaderProtocol):
    """One connection; it answers requests in their order."""

    is_trusted = False
    is_idle = False
    idle_since = 0.0

    def __init__(self, pages: Pages, seconds: float) -> None:
        """Cut off a client that needs so long for a request, or does not read its answer."""
        super().__init__(StreamReader(limit=MAX_HEAD_BYTES), self._begin)
        self.is_made = False
        self.is_over = asyncio.Event()
        self._pages, self._seconds = pages, seconds
        self._writer: StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stuck_since: float | None = None
        """Since when the client does not read its answers; None while it reads."""

    def _begin(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writer, self.is_made = writer, True
        self._serving = asyncio.get_running_loop().create_task(self._serve(reader, writer))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._serving is not None:
            self._serving.cancel()
        self.is_over.set()

    @override
    def pause_writing(self) -> None:
        self._stuck_since = perf_counter()
        super().pause_writing()

    @override
    def resume_writing(self) -> None:
        self._stuck_since = None
        super().resume_writing()

    def expire(self, now: float) -> None:
        """End the connection if its client does not read."""
        if self._stuck_since is not None and now - self._stuck_since > self._seconds:
            self.abort()

    def finish(self) -> None:
        """End the connection; these ports are closed last."""
        self.abort()

    def abort(self) -> None:
        """End the connection, even during a request."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while await self._answered(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):  # gone, or too late
            pass
        finally:
            writer.close()

    async def _answered(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Answer a request; return whether another one can follow."""
        async with asyncio.timeout(self._seconds):
            try:
                method, request, is_last = _read(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.LimitOverrunError:
                return await _write(writer, refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
            except ValueError:
                return await _write(writer, refused(HTTPStatus.BAD_REQUEST))
        if method != "GET":
            page = refused(HTTPStatus.METHOD_NOT_ALLOWED, allow="GET")
            return await _write(writer, page)
        return await _write(writer, await self._pages.answer(request), is_last=is_last)


def _read(head: bytes) -> tuple[str, Request, bool]:
    """Return method and request of a head, and whether nothing can follow it.

    Raises:
        ValueError: it is no head of HTTP/1.
    """
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = line.split(" ")
    if version not in {"HTTP/1.0", "HTTP/1.1"}:
        raise ValueError(version)
    fields = [each.partition(":") for each in lines]
    headers = {name.lower(): value.strip() for name, _, value in fields}
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    is_closed = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
    path, _, query = target.partition("?")
    return (
        method,
        Request(path=path, query=dict(parse_qsl(query)), headers=headers),
        has_body or is_closed,
    )


async def _write(writer: StreamWriter, page: Page, *, is_last: bool = True) -> bool:
    """Write an answer; return whether another one can follow."""
    is_whole = isinstance(page.body, bytes)
    headers = {
        "date": formatdate(usegmt=True),
        "content-type": page.content_type,
        **page.headers,
        **({"content-length": str(len(page.body))} if isinstance(page.body, bytes) else {}),
        **({"connection": "close"} if is_last or not is_whole else {}),
    }
    lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if isinstance(page.body, bytes):
        writer.write(page.body)
        await writer.drain()
    else:
        async with aclosing(page.body) as parts:
            async for part in parts:
                writer.write(part)
                await writer.drain()
    return is_whole and not is_last
