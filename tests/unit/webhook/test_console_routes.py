"""Facts about the paths of the console: who gets what."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus

import pytest
from fastapi import FastAPI, HTTPException, Request
from starlette.types import ASGIApp, Message

from sharder.console.stream import MAX_CLIENTS, SLOW_SECONDS, Client
from sharder.sdk.testing.fake_clock import settle
from tests.support.documents import ROOT
from tests.support.eventually import eventually
from tests.support.values import DEMO
from tests.unit.console.scene import Scene
from tests.unit.webhook.reviews import exchange
from webhook.console_routes import console_routes, create_console_app
from webhook.server import Server

PAGE = ROOT / "sharder/console/page.html"
MORE_THAN_BUFFERS = 64 * 1024 * 1024
"""Bytes that the sockets of both sides do not hold together."""
MORE_THAN_STREAMS = 8
"""Messages that FastAPI does not hold for a client."""
DATA = ("/console/api/rings", "/console/api/rings/demo", "/console/events")


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


def guarded(scene: Scene) -> FastAPI:
    """The console behind a guard that rejects every request."""

    async def refuse(_: Request) -> None:
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "send a token")

    app = FastAPI()
    app.include_router(console_routes(scene.console, guard=refuse))
    return app


def opened(scene: Scene) -> FastAPI:
    return create_console_app(scene.console)


async def get(app: ASGIApp, path: str, host: str = "localhost:8082") -> tuple[int, bytes]:
    result = await exchange(app, method="GET", path=path, headers=[(b"host", host.encode())])
    return result.status, result.body


@asynccontextmanager
async def streaming(app: ASGIApp, query: bytes = b"ring=demo") -> AsyncIterator[Stream]:
    stream = Stream(app, query)
    async with asyncio.TaskGroup() as group:
        group.create_task(stream.run())
        await settle()
        yield stream
        stream.leave()


@pytest.mark.parametrize("path", DATA)
async def test_without_the_right_there_is_no_data(path: str) -> None:
    scene = Scene()

    async with scene.watched():
        status, body = await get(guarded(scene), path)

    assert (status, json.loads(body)) == (401, {"detail": "send a token"})


async def test_the_page_asks_for_the_token_so_it_needs_none() -> None:
    status, body = await get(guarded(Scene()), "/console")

    assert (status, body) == (200, PAGE.read_bytes())


async def test_the_documents_have_names_as_in_kubernetes() -> None:
    scene = Scene()

    async with scene.watched():
        await scene.count(a=2, b=1)
        _, listed = await get(opened(scene), "/console/api/rings")
        _, one = await get(opened(scene), "/console/api/rings/demo")

    ring = json.loads(one)
    assert [each["availableShards"] for each in json.loads(listed)["rings"]] == [2]
    assert [(each["name"], each["objects"]) for each in ring["shardList"]] == [
        ("shard-a", 2),
        ("shard-b", 1),
    ]


async def test_another_ring_is_not_found() -> None:
    scene = Scene()

    async with scene.watched():
        status, _ = await get(opened(scene), "/console/api/rings/other")

    assert status == 404


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


async def test_the_stream_has_the_ring_and_ends_with_the_console() -> None:
    scene = Scene()

    async with scene.watched(), asyncio.TaskGroup() as group:
        looping = group.create_task(scene.console.run())
        async with streaming(opened(scene)) as stream:
            await scene.tick()
            looping.cancel()
            await settle()
            is_over = stream.is_over

    assert is_over
    assert (stream.status, stream.headers[b"content-type"].split(b";")[0]) == (
        200,
        b"text/event-stream",
    )
    assert re.findall(rb"event: (\w+)\n", stream.body) == [b"beat", b"rings", b"ring"]


async def test_a_client_that_goes_away_leaves_its_place() -> None:
    scene = Scene()

    async with scene.watched():
        with ExitStack() as stack:
            for _ in range(MAX_CLIENTS - 1):
                stack.enter_context(scene.console.joined(DEMO, lambda: None))
            async with streaming(opened(scene)):
                status, body = await get(opened(scene), "/console/events")
            full = scene.console.is_full

    assert (status, json.loads(body)["detail"]) == (503, "too many clients watch already")
    assert not full


async def test_a_name_without_end_is_refused() -> None:
    scene = Scene()

    async with streaming(opened(scene), b"ring=" + b"x" * 254) as stream:
        pass

    assert stream.status == 422


async def test_the_page_runs_its_own_script_and_reaches_its_own_server_only() -> None:
    result = await exchange(
        opened(Scene()), method="GET", path="/console", headers=[(b"host", b"localhost")]
    )
    policy = result.headers[b"content-security-policy"].decode()

    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy
    assert len(re.findall(r"(?:script|style)-src 'sha256-[\w+/=]{44}';", policy)) == 2
    assert not re.search(r"\son\w+=|\sstyle=|https?://", PAGE.read_text())


def test_names_of_the_cluster_are_never_markup() -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|srcdoc",
        PAGE.read_text(),
    )


async def test_a_client_that_does_not_read_is_cut_off_a_real_port() -> None:
    scene = Scene()
    app = create_console_app(scene.console)

    async def is_empty() -> bool:
        return not list(scene.console._clients)

    async with scene.watched(), Server(app, host="127.0.0.1", port=0) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET /console/events?ring=demo HTTP/1.1\r\nhost: localhost\r\n\r\n")
        client = await eventually(partial(first_client, scene), within=5)
        client.send("ring", "x" * MORE_THAN_BUFFERS)
        for _ in range(MORE_THAN_STREAMS):
            client.send("beat", "{}")
            await settle()
        await scene.cluster.clock.advance(SLOW_SECONDS)
        before = await is_empty()
        client.drop_if_slow()
        await eventually(is_empty, within=5)
        writer.close()

    assert not before


async def first_client(scene: Scene) -> Client:
    return next(iter(scene.console._clients))
