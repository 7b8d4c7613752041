"""The console over HTTP: the page, and the stream of events."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, Protocol

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import StreamingResponse

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]", "::1")
"""Names with which a browser on the same machine reaches a loopback port.  Any other name in the
Host header comes from a web page whose own name resolves to the loopback (DNS rebinding)."""

MAX_NAME: Final = 253
"""Characters of the longest name that Kubernetes accepts."""

MAX_STREAMS: Final = 8
"""Limit on the open streams of one port; that of the metrics has 64 connections for all."""

Guard = Callable[[Request], Awaitable[None]]
"""Raises an HTTPException to reject a request."""


class Console(Protocol):
    """The source of what the page shows; the webhook must not know the cluster."""

    def stream(self, ring: str | None) -> AsyncIterator[tuple[str, bytes]]:
        """Yield names and JSON of events until the stream ends."""


def console_routes(console: Console, *, guard: Guard) -> APIRouter:
    """Return the routes; the page itself contains no data of the cluster, so it is not guarded."""
    router = APIRouter(prefix="/console")
    page, headers = _page()

    @router.get("", response_class=Response)
    async def show_page() -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    router.include_router(_data_routes(console), dependencies=[Depends(guard)])
    return router


def create_console_app(console: Console) -> FastAPI:
    """Return an app with the console only, for a port on the loopback that requires no token."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK, www_redirect=False)
    app.include_router(console_routes(console, guard=_allow))
    return app


async def _allow(_: Request) -> None:
    """Let every client on the machine read."""


def _data_routes(console: Console) -> APIRouter:
    router, streams = APIRouter(), set[object]()

    async def place(request: Request) -> AsyncIterator[None]:
        if len(streams) >= MAX_STREAMS:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many clients watch already")
        streams.add(request)
        try:
            yield
        finally:
            streams.discard(request)

    @router.get("/events", response_class=Response, dependencies=[Depends(place)])
    async def events(
        ring: Annotated[str | None, Query(max_length=MAX_NAME)] = None,
    ) -> Response:
        events = console.stream(ring)
        blocks = (
            b"event: %b\ndata: %b\n\n" % (name.encode(), data) async for name, data in events
        )
        return StreamingResponse(
            blocks, media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    return router


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
