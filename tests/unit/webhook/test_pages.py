"""The ports for probes, metrics and people, over real connections."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from webhook.pages import MAX_HEAD_BYTES, Page, Pages, Request
from webhook.server import Server

GET = b"GET /page?name=a%20b HTTP/1.1\r\nhost: a\r\n"
HELLO = b"\r\n\r\nhello a b"


async def hello(request: Request) -> Page:
    return Page(body=f"hello {request.query.get('name')}".encode())


async def parts(_: Request) -> Page:
    async def body() -> AsyncGenerator[bytes, None]:
        for part in (b"one", b"two"):
            yield part

    return Page(body=body())


async def broken(_: Request) -> Page:
    raise RuntimeError("broken on purpose")


async def answered(*requests: bytes, seconds: float = 10.0) -> bytes:
    """Send requests over one connection, and return all of its answers."""
    pages = Pages({"/page": hello, "/parts": parts, "/broken": broken})
    server = Server(pages, host="127.0.0.1", port=0, request_seconds=seconds)
    async with server, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"".join(requests))
        found = await reader.read()
        writer.close()
    return found


async def test_a_connection_is_kept_until_the_client_ends_it() -> None:
    found = await answered(GET + b"\r\n", GET + b"connection: close\r\n\r\n", GET + b"\r\n")

    assert found.count(b"HTTP/1.1 200 OK\r\n") == found.count(HELLO) == 2


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /page HTTP/1.1\r\n\r\n", 405),
        (b"HEAD /page HTTP/1.1\r\n\r\n", 405),
        (b"GET /page HTTP/2\r\n\r\n", 400),
        (b"garbage\r\n\r\n", 400),
        (b"GET /other HTTP/1.1\r\nconnection: close\r\n\r\n", 404),
        (b"GET /broken HTTP/1.1\r\nconnection: close\r\n\r\n", 500),
        (b"GET /page HTTP/1.0\r\n\r\n", 200),
        (b"GET /page HTTP/1.1\r\ncontent-length: 5\r\n\r\nGET /", 200),
        (b"GET /page HTTP/1.1\r\nname: " + b"x" * MAX_HEAD_BYTES, 431),
    ],
)
async def test_a_request_that_is_the_last_one_is_answered_once(
    request_: bytes, status: int
) -> None:
    found = await answered(request_)

    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert found.count(b"HTTP/1.1") == 1


async def test_a_body_in_parts_ends_with_its_connection() -> None:
    assert (await answered(b"GET /parts HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nonetwo")


async def test_a_client_that_does_not_send_its_request_is_cut_off() -> None:
    assert await answered(GET, seconds=0.1) == b""
