"""Facts about the paths of the console: who gets what."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message

from sharder.sdk.testing.fake_clock import settle
from tests.unit.webhook.reviews import exchange
from webhook.console_routes import MAX_STREAMS, console_routes, create_console_app
from webhook.server import Server


class Stream:
    """One request for the stream, by a client that stays."""

    def __init__(self, app: ASGIApp, query: bytes) -> None:
        self._app, self._query = app, query
        self._gone = asyncio.Event()
        self.status, self.body = 0, b""
        self.is_over = False
        self.headers: dict[bytes, bytes] = {}

    async def run(self) -> None:
        scope = {
            "type": "http", "method": "GET", "path": "/console/events", "root_path": "",
            "query_string": self._query, "headers": [(b"host", b"localhost:1")], "state": {},
        }  # fmt: skip
        await self._app(scope, self._receive, self._send)
        self.is_over = True

    def leave(self) -> None:
        self._gone.set()

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message.get("body", b"")


class Silent:
    """Streams nothing for ever."""

    async def stream(self, _: str | None) -> AsyncIterator[tuple[str, bytes]]:
        yield "beat", b"{}"
        await asyncio.Event().wait()


async def get(app: ASGIApp, path: str, host: str = "localhost:8082") -> tuple[int, bytes]:
    where, _, query = path.partition("?")
    headers = [(b"host", host.encode())]
    result = await exchange(app, method="GET", path=where, query=query, headers=headers)
    return result.status, result.body


@asynccontextmanager
async def streaming(app: ASGIApp, query: bytes = b"ring=demo") -> AsyncIterator[Stream]:
    stream = Stream(app, query)
    async with asyncio.TaskGroup() as group:
        group.create_task(stream.run())
        await settle()
        yield stream
        stream.leave()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8082", 200),
        ("127.0.0.1:8082", 200),
        ("[::1]:8082", 200),
        ("rebound.example.com:8082", 400),
        ("", 400),
    ],
)
async def test_the_open_port_answers_no_page_of_another_host(host: str, status: int) -> None:
    answered, _ = await get(create_console_app(Silent()), "/console", host)

    assert answered == status


async def test_a_client_that_goes_away_leaves_its_place() -> None:
    app = create_console_app(Silent())

    async with AsyncExitStack() as stack:
        for _ in range(MAX_STREAMS):
            await stack.enter_async_context(streaming(app))
        status, body = await get(app, "/console/events")
    await settle()
    async with streaming(app) as stream:
        pass

    assert (status, json.loads(body)["detail"]) == (503, "too many clients watch already")
    assert stream.status == 200


async def test_a_client_that_does_not_read_is_cut_off_a_real_port() -> None:
    ended = asyncio.Event()

    class Endless:
        """Streams without end."""

        async def stream(self, _: str | None) -> AsyncIterator[tuple[str, bytes]]:
            try:
                while True:
                    yield "ring", b"x" * 2**20
                    await asyncio.sleep(0)
            finally:
                ended.set()

    async def allow(_: Request) -> None:
        """Let all in."""

    app = FastAPI()
    app.include_router(console_routes(Endless(), guard=allow))
    server = Server(app, host="127.0.0.1", port=0, request_seconds=0.5)
    async with server, asyncio.timeout(30):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET /console/events?ring=demo HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await ended.wait()
        writer.close()
