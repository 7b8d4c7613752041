"""A controller that nobody changed, behind a proxy: two processes of one pod."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from typing_extensions import override
from yarl import URL

from sharder.core.errors import Unavailable
from sharder.kube import client as kube
from sharder.kube.client import REQUEST_SECONDS
from sharder.kube.passage import Answer, Passage
from sharder.proxy.proxy import Proxy
from sharder.proxy.server import ProxyServer
from sharder.proxy.view import Options
from sharder.sdk.testing.memory_client import call_of
from sharder.sdk.testing.requests import Client as User
from sharder.shard.cluster import Cluster
from sharder.shard.settings import Settings
from tests.history.traces import Happening
from tests.stage.actors import LEASE, POD_NAME, RING, SHARD_ACCOUNT, Actor
from tests.stage.foreign_controller import ForeignController
from tests.stage.network import NetworkClient

if TYPE_CHECKING:
    from tests.stage.stage import Stage

PARTS: Final = ("both", "both", "controller", "proxy")


class Pipe(AbstractStreamWriter):
    """What the proxy writes to the controller: the head of an answer, and its body."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.head: asyncio.Future[tuple[int, Mapping[str, str]]] = loop.create_future()
        self.chunks = asyncio.Queue[bytes | None]()
        """None: it is cut off."""

    @override
    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        if not self.head.done():
            self.head.set_result((int(status_line.split()[1]), dict(headers)))

    @override
    async def write(self, chunk: Any) -> None:
        if chunk:
            self.chunks.put_nowait(bytes(chunk))

    @override
    async def write_eof(self, chunk: bytes = b"") -> None:
        await self.write(chunk)
        self.chunks.put_nowait(b"")

    @override
    async def drain(self) -> None:
        """The buffers of the kernel are large."""

    @override
    def enable_compression(self, encoding: str = "", strategy: int | None = None) -> None:
        raise NotImplementedError  # the proxy compresses nothing

    @override
    def enable_chunking(self) -> None:
        """The head says so."""

    def abort(self) -> None:
        """Cut the connection."""
        if not self.head.done():
            self.head.set_exception(ConnectionResetError())
            self.head.exception()  # it is said, even if nobody waits
        self.chunks.put_nowait(None)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        while chunk := await self.chunks.get():
            yield chunk
        if chunk is None:
            raise ConnectionResetError


class StagePassage(Passage):
    """The way of the controller's requests to the API server in memory."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client

    @override
    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        seconds: float | None = None,
        silence: float | None = None,
    ) -> AsyncGenerator[Answer, None]:
        path, _, rest = target.partition("?")
        query = dict(parse_qsl(rest))
        kind = {"Content-Type": "application/json"}
        try:
            if query.get("watch") == "true":
                call = kube.Call(method="GET", path=path, query=query)
                async with self._client.lines(call) as lines:
                    yield Answer(status=200, headers=kind, chunks=_lines(lines))
                return
            call = kube.Call(
                method=method,
                path=path,
                query=query,
                body=None if body is None else msgspec.json.decode(body),
                content_type=headers.get("Content-Type", "application/json"),
            )
            user, limit = self._client.user, seconds or REQUEST_SECONDS
            status, content = await self._client.exchange(call_of(user, call), limit)
            yield Answer(status=status, headers=kind, chunks=_once(content))
        except Unavailable as error:
            raise ConnectionError(str(error)) from error

    @override
    async def close(self) -> None:
        """Nothing is open."""


class ProxiedShard(Actor):
    """The pod of a controller that nobody changed: this process is its proxy.

    What is done to the shard is done to one of its two processes, or to both.
    """

    def __init__(self, stage: "Stage", name: str, *, server: int = 0) -> None:
        user = User(username=SHARD_ACCOUNT, extra={POD_NAME: (name,)})
        super().__init__(stage, name, user, server=server)
        settings = Settings(
            name=name,
            namespace="default",
            lease=LEASE,
            pod_uid=f"pod of {name}",
            kubeconfig=f"process {len(stage.actors)}",
        )
        self.proxy = Proxy(RING, settings, options=Options(), clock=self.clock, rng=self.rng)
        self.server: ProxyServer | None = None
        """What answers the controller, while it listens."""
        self.is_ending = False
        """Whether the pod is asked to stop."""
        self._handling = dict[asyncio.Task[None], Pipe]()

    @override
    async def main(self) -> None:
        """Serve until it is asked to stop."""
        try:
            await self.proxy.serve_on(
                Cluster(self.client), StagePassage(self.client), self._listen
            )
        finally:
            self._break()

    @asynccontextmanager
    async def _listen(self, server: ProxyServer) -> AsyncGenerator[None, None]:
        self.server = server
        try:
            yield
        finally:
            self.server = None
            self._break()

    @property
    def controller(self) -> ForeignController | None:
        """The controller that runs in the pod."""
        controller = self.stage.controllers.get(self.name)
        return controller if controller is not None and controller.is_running else None

    @override
    def terminate(self) -> None:
        """Ask the controller to stop, and the proxy when that has ended, as the kubelet does."""
        self.stage.history.happened(self.name, Happening.TERMINATED)
        self.is_ending = True
        controller = self.controller
        if controller is not None:
            controller.terminate()

        async def follow() -> None:
            if controller is not None:
                await controller.until_ended()
            self.stage.loop.call_soon(self.proxy.stop, context=self.context)

        self._ending = self.stage.loop.create_task(follow())

    @override
    def kill(self) -> None:
        which = self.rng.choice(PARTS)
        if which != "proxy" and self.controller is not None:
            self.controller.kill()
        if which != "controller":
            self.kill_proxy()

    def kill_proxy(self) -> None:
        """End the proxy at once; the kernel closes its connections."""
        super().kill()
        self._break()

    @override
    def pause(self) -> None:
        which = self.rng.choice(PARTS)
        if which != "proxy" and self.controller is not None:
            self.controller.pause()
        if which != "controller":
            super().pause()

    @override
    def resume(self) -> None:
        super().resume()
        if self.controller is not None:
            self.controller.resume()

    def _break(self) -> None:
        for task, pipe in list(self._handling.items()):
            pipe.abort()
            task.cancel()

    @asynccontextmanager
    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AsyncGenerator[Answer, None]:
        """Send a request of the controller; called in its process.

        Raises:
            OSError: there is no answer.
        """
        server = self.server
        if server is None or not self.is_running:
            raise ConnectionRefusedError
        pipe, loop = Pipe(), self.stage.loop
        handling: list[asyncio.Task[None]] = []

        def arrive() -> None:
            request = _Request(method, target, headers, body, pipe)
            task = loop.create_task(_handle(server, request, pipe), context=self.context)
            self._handling[task] = pipe
            handling.append(task)
            task.add_done_callback(self._handling.pop)

        loop.call_later(0.0005 * self.rng.random(), arrive, context=self.context)
        try:
            status, shown = await pipe.head
            yield Answer(status=status, headers=shown, chunks=pipe.read())
        finally:
            for task in handling:
                loop.call_soon(task.cancel, context=self.context)


class _Request(web.BaseRequest):
    """A request of the controller, as aiohttp hands it over, without a socket."""

    def __init__(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, pipe: Pipe
    ) -> None:
        given, url = CIMultiDictProxy(CIMultiDict(headers)), URL(target, encoded=True)
        message = RawRequestMessage(
            method, target, HttpVersion11, given, (), False, None, False, False, url
        )
        protocol: Any = SimpleNamespace(
            ssl_context=None,
            peername=None,
            sockname=None,
            transport=SimpleNamespace(abort=pipe.abort),
        )
        nothing: Any = None
        super().__init__(message, nothing, protocol, pipe, nothing, asyncio.get_running_loop())
        self._content = body

    @override
    async def read(self) -> bytes:
        return self._content


async def _handle(server: ProxyServer, request: Any, pipe: Pipe) -> None:
    try:
        response = await server.handle(request)
        await response.prepare(request)
        await response.write_eof()
    except (asyncio.CancelledError, OSError):
        pipe.abort()
        raise


async def _lines(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for line in lines:
            yield line + b"\n"
    except Unavailable as error:
        raise ConnectionError(str(error)) from error


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
