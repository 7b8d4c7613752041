"""The console over HTTP: the page, and the stream of events."""

import base64
import hashlib
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from http import HTTPStatus
from importlib.resources import files
from typing import Final, Protocol

from webhook.pages import Handler, Page, Pages, Request, refused

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Names with which a browser on the same machine reaches a loopback port.  Any other name in the
Host header comes from a web page whose own name resolves to the loopback (DNS rebinding)."""

MAX_STREAMS: Final = 8
"""Limit on the open streams of one port; that of the metrics has 64 connections for all."""


class Console(Protocol):
    """The source of what the page shows; the webhook must not know the cluster."""

    def stream(self, ring: str | None) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield names and JSON of events until the stream ends."""


def console_routes(
    console: Console, *, guarded: Callable[[Handler], Handler]
) -> dict[str, Handler]:
    """Return the pages; the page itself contains no data of the cluster, so it is not guarded."""
    streams = set[object]()
    html, headers = _page()

    async def page(_: Request) -> Page:
        return Page(body=html, content_type="text/html; charset=utf-8", headers=headers)

    async def events(request: Request) -> Page:
        if len(streams) >= MAX_STREAMS:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many clients watch already")
        body = _blocks(console.stream(request.query.get("ring")), streams)
        headers = {"cache-control": "no-store"}
        return Page(body=body, content_type="text/event-stream", headers=headers)

    return {
        "/console": page,
        "/console/events": guarded(events),
    }


def create_console_app(console: Console) -> Pages:
    """Return the console only, for a port on the loopback that requires no token."""
    return Pages(console_routes(console, guarded=lambda page: page), hosts=LOOPBACK)


async def _blocks(
    events: AsyncGenerator[tuple[str, bytes], None], streams: set[object]
) -> AsyncGenerator[bytes, None]:
    """Yield the events as text, and keep a place among the streams meanwhile."""
    streams.add(events)
    try:
        async with aclosing(events):
            async for name, data in events:
                yield b"event: %b\ndata: %b\n\n" % (name.encode(), data)
    finally:
        streams.discard(events)


def _page() -> tuple[bytes, dict[str, str]]:
    """Return the page, and headers that let it run only its own script and style."""
    page = files("sharder.console").joinpath("page.html").read_bytes()
    sources = {tag: _hashes(page, tag) for tag in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src {sources['script']}; style-src {sources['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return page, {
        "content-security-policy": policy,
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def _hashes(page: bytes, tag: str) -> str:
    blocks = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(each).digest()).decode() for each in blocks)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
