"""An API server in memory and a real one, behind one interface."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import ClientSession, ClientTimeout, web

from hack.certificates import Authority
from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, Resource
from sharder.kube.client import REQUEST_SECONDS, Client
from sharder.kube.typed_stores import LEASES as LEASE_RESOURCE
from sharder.kube.typed_stores import MUTATING, NAMESPACES
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.requests import Client as User
from sharder.sdk.testing.resources import BUILT_IN
from sharder.sdk.testing.storage import Storage
from tests.stage.admission import BINDINGS, POLICIES, StageAdmission
from tests.support.full_server import FullServer

ADDRESS = "127.0.0.1"


class Hooks:
    """Mutating webhooks, by the path of their URL, and the calls that they got."""

    def __init__(self) -> None:
        self.calls: list[Json] = []

    async def answer(self, path: str, body: bytes) -> bytes:
        """Answer a review.

        Raises:
            OSError: this webhook is broken.
        """
        review = msgspec.json.decode(body)["request"]
        obj, name = review["object"], path.removeprefix("/")
        labels = obj["metadata"].get("labels", {})
        self.calls.append([name, review["operation"], review.get("name"), sorted(labels)])
        answer: dict[str, Json] = {"uid": review["uid"], "allowed": name != "denies"}
        match name:
            case "broken":
                raise ConnectionResetError
            case "slow":
                await asyncio.sleep(3)
            case "denies" | "looks":
                pass
            case _:
                patch = [] if labels else [{"op": "add", "path": "/metadata/labels", "value": {}}]
                patch.append({"op": "add", "path": f"/metadata/labels/{name}", "value": "yes"})
                encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
                answer |= {"patchType": "JSONPatch", "patch": encoded}
        kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return msgspec.json.encode({**kind, "response": answer})


class Server(Protocol):
    """An API server that answers whatever is sent, and a namespace on it."""

    namespace: str
    hooks: Hooks

    def fill_in(self, body: bytes) -> bytes:
        """Put the address and the certificate of the webhooks into a body."""
        ...

    async def send(self, call: Call) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        ...

    def watch(self, call: Call) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch, and yield its lines."""
        ...

    async def forget(self) -> None:
        """Remember no version before the present one."""
        ...


class InMemory:
    """The API server of the testing kit."""

    namespace = "contract-in-memory"

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.hooks = Hooks()
        self.storage = Storage()
        known = (*BUILT_IN.values(), NAMESPACES, LEASE_RESOURCE, MUTATING, POLICIES, BINDINGS)
        self.server = FullServer(self.storage, (*known, *resources), now=FakeClock().now)
        admission = StageAdmission(self.server, {"hooks": self.hooks.answer})
        self.server.writer.admission = admission

    async def set_up(self) -> None:
        labels: Json = {"kubernetes.io/metadata.name": self.namespace}
        body: Json = {"metadata": {"name": self.namespace, "labels": labels}}
        await self.server.answer(Call(method="POST", path="/api/v1/namespaces", body=body))

    def fill_in(self, body: bytes) -> bytes:
        return body

    async def send(self, call: Call) -> tuple[int, bytes]:
        try:
            return await self.server.answer(call)
        except Refused as error:
            return error.code, error.status

    @asynccontextmanager
    async def watch(self, call: Call) -> AsyncIterator[AsyncIterator[bytes]]:
        watcher = self.server.watch(call)
        yield watcher.lines()
        watcher.close()

    async def forget(self) -> None:
        self.storage.compact()


class Real:
    """A real API server, which reaches the webhooks at a port of this machine."""

    def __init__(self, client: Client, plane: ControlPlane, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.hooks = Hooks()
        self._plane = plane
        self._authority = Authority("contract")
        self._port = 0

    @asynccontextmanager
    async def serving_hooks(self) -> AsyncIterator[None]:
        async def answer(request: web.Request) -> web.Response:
            response = web.Response(content_type="application/json")
            response.force_close()  # so that no connection is open at the end
            try:
                response.body = await self.hooks.answer(request.path, await request.read())
            except OSError:
                response.set_status(500)
            return response

        app = web.Application()
        app.router.add_post("/{name}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        tls = server_context(self._authority, self._plane.directory / "contract.pem")
        await web.TCPSite(runner, ADDRESS, 0, ssl_context=tls).start()
        self._port = int(runner.addresses[0][1])
        try:
            yield
        finally:
            await runner.cleanup()

    def fill_in(self, body: bytes) -> bytes:
        url = f"https://{ADDRESS}:{self._port}/".encode()
        ca = base64.b64encode(self._authority.certificate)
        return body.replace(b"https://hooks/", url).replace(b'"CA"', b'"' + ca + b'"')

    async def send(self, call: Call) -> tuple[int, bytes]:
        headers = await self.client._headers(call.accept)
        headers["Content-Type"] = call.content_type
        headers |= _impersonating(call.client)
        query = f"?{urlencode(call.query)}" if call.query else ""
        body = None if call.body is None else msgspec.json.encode(call.body)
        target, limit = call.path + query, ClientTimeout(total=REQUEST_SECONDS)
        session = self.client._http
        async with session.open(call.method, target, headers, body, timeout=limit) as response:
            return response.status, await response.read()

    @asynccontextmanager
    async def watch(self, call: Call) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.client.lines(call) as lines:
            yield lines

    async def forget(self) -> None:
        await _compact(f"{self._plane.etcd_url}/v3")
        await asyncio.to_thread(self._plane.restart_apiserver)


async def _compact(url: str) -> None:
    """Compact etcd at its current revision: lists and watches from an older one expire.

    The API server's own watches are at the current revision, so they continue.

    Source:
        etcd v3.6 `api/etcdserverpb/rpc.proto`, `KV.Compact`, through its gRPC gateway, which
        writes 64-bit numbers as strings.
    """
    async with ClientSession(raise_for_status=True) as session:
        async with session.post(f"{url}/maintenance/status", json={}) as answer:
            revision = (await answer.json())["header"]["revision"]
        await session.post(f"{url}/kv/compaction", json={"revision": revision, "physical": True})


def _impersonating(user: User) -> Mapping[str, str]:
    """Return the headers with which an admin acts as a user that has all rights."""
    if user == User():
        return {}
    extra = {f"Impersonate-Extra-{quote(key, safe='')}": of[0] for key, of in user.extra.items()}
    return {"Impersonate-User": user.username, "Impersonate-Group": "system:masters", **extra}


def server_context(authority: Authority, file: Path) -> ssl.SSLContext:
    """Return the TLS of a server; `file` keeps its certificate and key."""
    identity = authority.issue("localhost", ADDRESS)
    file.write_bytes(identity.certificate + identity.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context
