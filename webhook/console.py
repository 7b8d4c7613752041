"""The console over HTTP: the page, and the document that it polls."""

import base64
import hashlib
import re
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from webhook.messages import Answer, App, Body, Fields, Route, refusal

PAGE_PATH: Final = "/console"
RINGS_PATH: Final = "/console/rings/"
"""The name of a ring follows, or nothing."""

_LOOPBACK: Final = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""The header Host of a browser on the same machine.  Any other name comes from a web page whose
own name resolves to the loopback (DNS rebinding)."""


def console_app(look: Callable[[str], Coroutine[None, None, bytes]]) -> App:
    """Return the routes of the console, for a port on the loopback that requires no token.

    `look` returns JSON about all rings, and about the ring of this name.
    """
    page = _page()

    async def state(ring: str, _: Body) -> Answer:
        return Answer(HTTPStatus.OK, await look(ring))

    def route(path: str, fields: Fields) -> Route | None:
        if _LOOPBACK.fullmatch(fields.get(b"host", b"")) is None:
            return Route(lambda _: refusal(HTTPStatus.BAD_REQUEST, "wrong host"), b"GET")
        if path.startswith(RINGS_PATH):
            return Route(partial(state, path.removeprefix(RINGS_PATH)), b"GET")
        return Route(lambda _: page, b"GET") if path == PAGE_PATH else None

    return route


def _page() -> Answer:
    """Return the page, with headers that let it run only its own script and style."""
    page = files("sharder.console").joinpath("page.html").read_bytes()
    fields = (
        b"content-type: text/html; charset=utf-8\r\n"
        b"content-security-policy: default-src 'none'; script-src %b; style-src %b; "
        b"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'\r\n"
        b"cache-control: no-store\r\n"
        b"referrer-policy: no-referrer\r\n"
        b"x-content-type-options: nosniff\r\n"
    )
    return Answer(
        HTTPStatus.OK, page, fields=fields % (_hashes(page, "script"), _hashes(page, "style"))
    )


def _hashes(page: bytes, tag: str) -> bytes:
    blocks = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(each).digest()) for each in blocks)
    return b" ".join(b"'sha256-%b'" % digest for digest in digests)
