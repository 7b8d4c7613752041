"""Load on two replicas while their certificates are replaced, and what was seen of it."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import lru_cache
from itertools import count, cycle

from hack.playground import NAMESPACE, RING, Playground
from sharder.core.api.meta import Json
from sharder.core.errors import SharderError
from sharder.core.names import RingName, webhook_configuration, webhook_path
from sharder.kube.client import MERGE_PATCH, Client
from sharder.tls.facts import fingerprints
from tests.support.paced import CALL_SECONDS, Calls, paced

REPLICAS = ("sharder-0", "sharder-1")
REVIEWS_PER_SECOND = 200
CREATES_PER_SECOND = 50
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REAL = f"{CONFIGURATIONS}/{webhook_configuration(RingName(RING))}"
COPY = "every-failure-counts"


class Load:
    """Reviews over new connections, and creates that fail when the webhook does.

    A review trusts whom the ring's webhook configuration says at that moment, and is strict.  The
    creates go through a copy of that configuration with `failurePolicy: Fail`.
    """

    def __init__(self, playground: Playground, admin: Client) -> None:
        self.reviews, self.creates = Calls(), Calls()
        self.published: list[frozenset[str]] = []
        """The authorities in the configuration, each time they changed."""
        self._ports = cycle([playground.webhook_port(name) for name in REPLICAS])
        self._admin = admin
        self._ca_bundle = ""
        self._numbers = count()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load while inside."""
        await self._follow_once()
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            tasks = [
                group.create_task(self._follow(stop)),
                group.create_task(paced(REVIEWS_PER_SECOND, self.reviews, self._review, stop)),
                group.create_task(paced(CREATES_PER_SECOND, self.creates, self._create, stop)),
            ]
            try:
                yield
            finally:
                stop.set()
                await asyncio.wait(tasks)
        await self._admin.request("DELETE", f"{CONFIGURATIONS}/{COPY}")

    async def _follow(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._follow_once()
            await asyncio.sleep(0.05)

    async def _follow_once(self) -> None:
        """Note whom the configuration trusts, and have the copy trust the same."""
        real = json.loads(await self._admin.request("GET", REAL))
        webhook = real["webhooks"][0]  # for new main objects
        ca_bundle = webhook["clientConfig"]["caBundle"]
        strict = {"webhooks": [{**webhook, "failurePolicy": "Fail"}]}
        if not self._ca_bundle:
            body: Json = {"metadata": {"name": COPY}, **strict}
            await self._admin.request("POST", CONFIGURATIONS, body=body)
        elif ca_bundle != self._ca_bundle:
            path = f"{CONFIGURATIONS}/{COPY}"
            await self._admin.request("PATCH", path, body=strict, content_type=MERGE_PATCH)
        if ca_bundle != self._ca_bundle:
            self.published.append(fingerprints(base64.b64decode(ca_bundle)))
        self._ca_bundle = ca_bundle

    async def _review(self) -> None:
        answer = await review(next(self._ports), self._ca_bundle)
        if b" 200 " not in answer.partition(b"\r\n")[0] or b'"allowed":true' not in answer:
            raise SharderError(answer.decode())

    async def _create(self) -> None:
        body: Json = {"metadata": {"name": f"under-load-{next(self._numbers)}"}}
        await self._admin.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body=body)


async def review(port: int, ca_bundle: str) -> bytes:
    """Send a review over a connection of its own and return the whole answer."""
    context = strict_context(ca_bundle)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
    )
    try:
        writer.write(_REQUEST)
        return await reader.read()
    finally:
        writer.transport.abort()


async def shown(port: int, ca_bundle: str) -> bytes:
    """Return the certificate (DER) that a replica shows to one who trusts `ca_bundle` alone."""
    context = strict_context(ca_bundle)
    async with asyncio.timeout(CALL_SECONDS):
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
        )
    tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True)
    writer.transport.abort()
    return certificate or b""


@lru_cache
def strict_context(ca_bundle: str) -> ssl.SSLContext:
    """Return a client's context that trusts these authorities and no other."""
    context = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def _request() -> Iterator[bytes]:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review",
            "kind": {"group": "", "version": "v1", "kind": "Secret"},
            "resource": {"group": "", "version": "v1", "resource": "secrets"},
            "operation": "CREATE",
            "namespace": NAMESPACE,
            "name": "reviewed",
            "userInfo": {"username": "user"},
            "object": {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "reviewed", "namespace": NAMESPACE},
            },
        },
    }
    body = json.dumps(review).encode()
    yield f"POST {webhook_path(RingName(RING))} HTTP/1.1\r\n".encode()
    yield b"Host: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    yield f"Content-Length: {len(body)}\r\n\r\n".encode()
    yield body


_REQUEST = b"".join(_request())
