"""A proxy between a client and an API server, both played by a test."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import GroupResource, RingName, ShardName, owner_label
from sharder.kube.access import Access, Authorization, Token
from sharder.kube.passage import Passage
from sharder.proxy.here import Here
from sharder.proxy.server import ProxyServer
from sharder.proxy.view import Options, View
from sharder.runtime.clock import SystemClock
from sharder.shard.identity import Identity

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
JOBS, PODS = GroupResource("batch", "jobs"), GroupResource("", "pods")
RING = RingName("jobs")
ME = Identity(ring=RING, shard=ShardName("me"))
JOBS_IN_DEMO, PODS_IN_DEMO = "/apis/batch/v1/namespaces/demo/jobs", "/api/v1/namespaces/demo/pods"
JOBS_PATH, JOB_PATH = "/apis/batch/v1/jobs", f"{JOBS_IN_DEMO}/one"
LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/demo/leases"
JOB = ObjectMeta(
    name="one",
    namespace="demo",
    uid="u1",
    resource_version="5",
    labels={owner_label(RING): "me"},
)


def event(kind: str, meta: Mapping[str, object]) -> dict[str, object]:
    return {"type": kind, "object": {"metadata": {"resourceVersion": "9", **meta}}}


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


def shows(*events: object, listed: object = None, until: asyncio.Event | None = None) -> Handler:
    """Answer watches with events, open until then, and all other requests with an object."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(listed or {})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(lines(*events))
        if until is not None:
            await until.wait()
        return response

    return answer


def page(*metas: dict[str, object], **more: str) -> dict[str, object]:
    return {"metadata": more, "items": [{"metadata": meta} for meta in metas]}


def deliver(here: Here, meta: ObjectMeta) -> ObjectMeta:
    """Let the controller get an object."""
    with here.delivering([meta]):
        return meta


async def breaks(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def no_token() -> Token:
    return Token("")


@dataclass
class Stage:
    """A proxy whose shard has the job `one`, before an API server that a test plays."""

    answer: Handler = field(default_factory=shows)
    asked: list[web.Request] = field(default_factory=list)
    left: float = 7.0
    reached: AsyncMock = field(default_factory=AsyncMock)
    client: aiohttp.ClientSession = field(init=False)
    view: View = field(init=False)

    async def api_server(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        await request.read()
        return await self.answer(request)

    async def ask(self, method: str, path: str, body: object = None, kind: str = "json") -> int:
        """Return the status of an answer, which is read."""
        headers, data = {"Content-Type": f"application/{kind}"}, json.dumps(body).encode()
        sent = b"" if body is None else data
        async with self.client.request(method, path, headers=headers, data=sent) as answer:
            await answer.read()
            return answer.status

    async def read(self, path: str) -> bytes:
        """Return what is shown there."""
        async with self.client.get(path) as answer:
            assert answer.status == 200
            return await answer.read()

    @property
    def here(self) -> Here:
        """What is here."""
        return self.view.here

    @property
    def methods(self) -> list[str]:
        """How the API server was asked."""
        return [request.method for request in self.asked]

    def open(self, passage: Passage) -> ProxyServer:
        # Nobody controls a child that the controller has not seen.
        pods = Mock(get=AsyncMock(return_value=PartialObject()), check_reached=self.reached)
        found = {JOBS: Mock(kind="Job", namespaced=True), PODS: Mock(kind="Pod", namespaced=True)}
        cluster = Mock(objects=Mock(return_value=pods))
        context = Mock(identity=ME, clock=SystemClock(), cluster=cluster, found=found)
        context.handled = {JOBS: [PODS]}
        self.view = View(context, Options())
        self.view.streams._until = 0  # the controller watches no children
        self.view.open(lambda: self.left)
        self.here.listed(JOBS, [JOB], "5")
        deliver(self.here, JOB)
        return ProxyServer(passage, self.view)


def served(handler: Handler) -> TestServer:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    return TestServer(app)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    async with served(stage.api_server) as above:
        access = Access(
            server=str(above.make_url("")).rstrip("/"),
            trust=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # of no server: it has no TLS
            authorization=Authorization(no_token),
        )
        passage = Passage(access)
        proxy = served(stage.open(passage).handle)
        await proxy.start_server()
        async with aiohttp.ClientSession(str(proxy.make_url("/"))) as stage.client:
            yield stage
        await proxy.close()
        await passage.close()
