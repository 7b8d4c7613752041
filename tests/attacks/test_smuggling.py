"""A request that hides another one: two readers of the same bytes would see different requests."""

import asyncio
from contextlib import suppress
from typing import Final

import pytest

from tests.integration.test_webhook_server import HOST, WITHIN, connected
from tests.unit.webhook.reviews import app_with
from webhook.server import Server

HIDDEN: Final = b"GET /readyz HTTP/1.1\r\nhost: sharder\r\n\r\n"
"""Stands where one reader sees the body of the request before it, and another a request."""
CHUNKED_END: Final = b"0\r\n\r\n"


def request(*headers: bytes) -> bytes:
    return b"\r\n".join([b"GET /healthz HTTP/1.1", b"host: sharder", *headers, b"", b""])


LENGTH: Final = b"content-length: %d" % len(CHUNKED_END + HIDDEN)
AMBIGUOUS: Final = {
    "both framings": (LENGTH, b"transfer-encoding: chunked"),
    "both framings, the other first": (b"transfer-encoding: chunked", LENGTH),
    "two lengths": (b"content-length: 5", LENGTH),
    "a list of lengths": (b"content-length: 5, %d" % len(CHUNKED_END + HIDDEN),),
    "a signed length": (b"content-length: +5",),
    "a space before the colon": (b"transfer-encoding : chunked", LENGTH),
    "a folded header": (b"transfer-encoding:\r\n chunked", LENGTH),
    "an unknown encoding": (b"transfer-encoding: xchunked", LENGTH),
    "chunked in the middle": (b"transfer-encoding: chunked, identity", LENGTH),
    "a vertical tab": (b"transfer-encoding: \x0bchunked", LENGTH),
    "a bare line feed": (b"x: y\ntransfer-encoding: chunked", LENGTH),
}


async def answered(headers: tuple[bytes, ...], *, within: float) -> bool:
    """Return whether the server answers a request that is hidden in the body of another one."""
    async with (
        Server(app_with(), host=HOST, port=0) as server,
        connected(server.port) as client,
    ):
        await client.send(request(*headers), CHUNKED_END, HIDDEN)
        with suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(within):
                await client.reader.readuntil(b'{"ready"')
                return True
        return False


@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_what_a_request_hides_is_not_answered(headers: tuple[bytes, ...]) -> None:
    assert not await answered(headers, within=1.0)


async def test_what_comes_after_a_request_is_answered() -> None:
    """With one framing all readers agree."""
    assert await answered((b"transfer-encoding: chunked",), within=WITHIN)
