"""The console over HTTP: the page, its JSON, and the stream of events."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, Protocol

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sharder.console.models import RingDetail, Rings
from sharder.core.names import RingName
from webhook.connection import cut

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]", "::1")
"""Names with which a browser on the same machine reaches a loopback port.  Any other name in the
Host header comes from a web page whose own name resolves to the loopback (DNS rebinding)."""

MAX_NAME: Final = 253
"""Characters of the longest name that Kubernetes accepts."""

Guard = Callable[[Request], Awaitable[None]]
"""Raises an HTTPException to reject a request."""


class Message(Protocol):
    """An event of the stream."""

    @property
    def event(self) -> str:
        """Its name."""

    @property
    def data(self) -> str:
        """Its JSON."""


class Client(Protocol):
    """A page that receives the stream."""

    def messages(self) -> AsyncIterator[Message]:
        """Yield the messages to send, until the stream ends."""


class Console(Protocol):
    """The source of what the page shows: `sharder.console.console.Console`."""

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another stream."""

    async def rings(self) -> Rings:
        """Return all rings."""

    def ring(self, name: RingName) -> RingDetail | None:
        """Return one ring, None if there is none of this name."""

    def joined(
        self, ring: RingName | None, cut: Callable[[], None]
    ) -> AbstractContextManager[Client]:
        """Add a client while the body runs; `cut` closes its connection at once."""


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
    router = APIRouter()

    @router.get("/api/rings")
    async def rings() -> Rings:
        return await console.rings()

    @router.get("/api/rings/{name}")
    async def ring(name: str) -> RingDetail:
        detail = console.ring(RingName(name))
        if detail is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no ring of that name")
        return detail

    async def joined(
        request: Request, ring: Annotated[str | None, Query(max_length=MAX_NAME)] = None
    ) -> AsyncIterator[Client]:
        if console.is_full:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many clients watch already")
        name = None if ring is None else RingName(ring)
        with console.joined(name, partial(cut, request)) as client:
            yield client

    @router.get("/events", response_class=EventSourceResponse)
    async def events(client: Annotated[Client, Depends(joined)]) -> AsyncIterator[ServerSentEvent]:
        async for message in client.messages():
            yield ServerSentEvent(event=message.event, raw_data=message.data)

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
