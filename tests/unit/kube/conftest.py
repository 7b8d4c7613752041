"""An HTTP server that answers as a test says, and a client of it."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hack.certificates import Authority
from sharder.core.api.meta import Json
from sharder.kube.client import Client, connect

Stream: TypeAlias = Callable[[web.StreamResponse], Awaitable[None]]
Answer: TypeAlias = tuple[int, Json] | bytes | Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json


@dataclass(slots=True)
class Script:
    """What to answer, in order; the last answer is repeated."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def then(self, *answers: Answer) -> None:
        self.answers.extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            Asked(
                method=request.method,
                path=request.raw_path.partition("?")[0],
                query=dict(request.query),
                headers=dict(request.headers),
                body=msgspec.json.decode(body) if body else None,
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        match answer:
            case bytes():
                return web.Response(body=answer)
            case (status, tree):
                return web.Response(status=status, body=msgspec.json.encode(tree))
            case stream:
                response = web.StreamResponse()
                await response.prepare(request)
                await stream(response)
                return response


AUTHORITY = base64.b64encode(Authority("unit tests").certificate).decode()
"""Without one, each client would load all authorities of the machine, which takes 40 ms."""


def config(server: str, user: Json, cluster: Json = None, **more: Json) -> str:
    """A kubeconfig of one user and one cluster, which has AUTHORITY unless said otherwise."""
    of_cluster = {"certificate-authority-data": AUTHORITY} if cluster is None else cluster
    assert isinstance(of_cluster, dict)
    return json.dumps(
        {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server, **of_cluster}}],
            "users": [{"name": "u", "user": user}],
            **more,
        }
    )


@pytest.fixture
def script() -> Script:
    return Script()


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[str]:
    """The URL of a server that follows the script."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/prefix"))


@asynccontextmanager
async def connected(server: str, folder: Path) -> AsyncIterator[Client]:
    """A client that has its kubeconfig and its token in this folder."""
    file = folder / "config"
    file.write_text(config(server, {"tokenFile": "token"}))
    (folder / "token").write_text("secret-token")
    client = await connect(str(file))
    yield client
    await client.close()


@pytest.fixture
async def server(script: Script) -> AsyncIterator[str]:
    async with serving(script) as url:
        yield url


@pytest.fixture
async def client(server: str, tmp_path: Path) -> AsyncIterator[Client]:
    async with connected(server, tmp_path) as client:
        yield client
