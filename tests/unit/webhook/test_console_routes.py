"""Facts about the paths of the console: who gets what."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from http import HTTPStatus

import pytest

from sharder.console.console import STREAM_SECONDS
from sharder.sdk.testing.fake_clock import settle
from tests.support.documents import ROOT
from tests.unit.console.scene import Scene
from tests.unit.webhook import reviews
from webhook.console_routes import MAX_STREAMS, console_routes, create_console_app
from webhook.pages import Page, Pages, Request, refused
from webhook.server import Server

PAGE = ROOT / "sharder/console/page.html"


class Stream:
    """One request for the stream, by a client that stays."""

    def __init__(self, app: Pages, ring: str) -> None:
        self._request = Request(
            path="/console/events", query={"ring": ring}, headers={"host": "localhost:1"}
        )
        self._app = app
        self.page = Page(body=b"")
        self.body = b""
        self.is_over = False

    async def run(self) -> None:
        self.page = await self._app.answer(self._request)
        assert not isinstance(self.page.body, bytes)
        async with aclosing(self.page.body) as parts:
            async for part in parts:
                self.body += part
        self.is_over = True


def guarded(scene: Scene) -> Pages:
    """The console behind a guard that rejects every request."""

    async def refuse(_: Request) -> Page:
        return refused(HTTPStatus.UNAUTHORIZED, "send a token")

    return Pages(console_routes(scene.console, guarded=lambda _: refuse))


def opened(scene: Scene) -> Pages:
    return create_console_app(scene.console)


async def get(app: Pages, path: str, host: str = "localhost:8082") -> tuple[int, bytes]:
    status, body, _ = await reviews.get(app, path, host=host)
    return status, body


@asynccontextmanager
async def streaming(app: Pages, ring: str = "demo") -> AsyncIterator[Stream]:
    stream = Stream(app, ring)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stream.run())
        await settle()
        yield stream
        running.cancel()


async def test_without_the_right_there_is_no_data() -> None:
    scene = Scene()

    async with scene.watched():
        status, body = await get(guarded(scene), "/console/events")

    assert (status, json.loads(body)) == (401, {"detail": "send a token"})


async def test_another_ring_has_no_state() -> None:
    scene = Scene()

    async with scene.watched(), streaming(opened(scene), "other") as stream:
        await settle()

    assert b"event: ring\ndata: null\n" in stream.body


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
    answered, _ = await get(opened(Scene()), "/console", host)

    assert answered == status


async def test_the_stream_has_what_changes_and_ends_after_five_minutes() -> None:
    scene = Scene()

    async with scene.watched(), streaming(opened(scene)) as stream:
        await scene.cluster.clock.advance(1)
        first = events(stream)
        await scene.count(a=2, b=1)
        await scene.cluster.clock.advance(1)
        second = events(stream)
        is_open = not stream.is_over
        await scene.cluster.clock.advance(STREAM_SECONDS)
        is_over = stream.is_over

    assert (stream.page.status, stream.page.content_type) == (200, "text/event-stream")
    assert (first, second[3:4], is_open, is_over) == (
        [b"beat", b"rings", b"ring"], [b"ring"], True, True,
    )  # fmt: skip
    assert b'"shardList":[{"name":"shard-a"' in stream.body


async def test_a_client_that_goes_away_leaves_its_place() -> None:
    scene = Scene()
    app = opened(scene)

    async with scene.watched():
        async with AsyncExitStack() as stack:
            for _ in range(MAX_STREAMS):
                await stack.enter_async_context(streaming(app))
            status, body = await get(app, "/console/events")
        await settle()
        async with streaming(app) as stream:
            pass

    assert (status, json.loads(body)["detail"]) == (503, "too many clients watch already")
    assert stream.page.status == 200


def events(stream: Stream) -> list[bytes]:
    return re.findall(rb"event: (\w+)\n", stream.body)


async def test_the_page_runs_its_own_script_and_reaches_its_own_server_only() -> None:
    _, _, headers = await reviews.get(opened(Scene()), "/console", host="localhost")
    policy = headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy
    assert len(re.findall(r"(?:script|style)-src 'sha256-[\w+/=]{44}';", policy)) == 2
    assert not re.search(r"\son\w+=|\sstyle=|https?://", PAGE.read_text())


async def test_a_client_that_does_not_read_is_cut_off_a_real_port() -> None:
    ended = asyncio.Event()

    class Endless:
        """Streams without end."""

        async def stream(self, _: str | None) -> AsyncGenerator[tuple[str, bytes], None]:
            try:
                while True:
                    yield "ring", b"x" * 2**20
                    await asyncio.sleep(0)
            finally:
                ended.set()

    app = Pages(console_routes(Endless(), guarded=lambda page: page))
    server = Server(app, host="127.0.0.1", port=0, request_seconds=0.5)
    async with server, asyncio.timeout(30):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET /console/events?ring=demo HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await ended.wait()
        writer.close()
