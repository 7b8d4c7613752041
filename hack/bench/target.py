"""A webhook's server in its own process, and a minimal webhook for comparison.

`target.started(*sizes)` serves rings of all strategies.  On a second port the process answers with
a constant, from a bare ASGI callable on uvicorn: `null`.  Both share the process, the event loop
and TLS.
"""

import asyncio
import gc
import json
import socket
import sys
from asyncio.subprocess import PIPE, Process
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import uvicorn
import uvloop
from prometheus_client import CollectorRegistry

from hack.bench.secrets_ring import STRATEGIES, filled
from hack.certificates import Authority
from sharder.config.settings import WebhookServer
from sharder.core.api.ring import StrategyName
from sharder.core.names import RingName
from sharder.core.placement.tally import LIVES
from sharder.core.ring.snapshot import RingSnapshot
from sharder.metrics.registry import service_metrics
from webhook.admission import AdmissionEndpoint
from webhook.app import webhook_app
from webhook.ring_validation import RingValidation
from webhook.server import Server
from webhook.tls import ServerTls

HOST: Final = "127.0.0.1"

_UID: Final = b'"uid":'
_PATCH: Final = b64encode(
    b'[{"op":"add","path":"/metadata/labels","value":{"shard":"some-shard-of-mine"}}]'
)
_ANSWER: Final = (
    b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%s",'
    b'"allowed":true,"patchType":"JSONPatch","patch":"%s"}}'
)


Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, bytes]]]
Send: TypeAlias = Callable[[Mapping[str, object]], Awaitable[None]]


async def null(_scope: object, receive: Receive, send: Send) -> None:
    """Answer a review with a constant patch; of the review only the uid is read."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
    _, uid, _ = body[body.index(_UID) + len(_UID) :].split(b'"', 2)
    content = _ANSWER % (uid, _PATCH)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def serving_null(tls: ServerTls) -> AsyncIterator[int]:
    """Serve `null` on uvicorn as it comes, and yield the port."""
    listening = socket.create_server((HOST, 0))
    server = uvicorn.Server(
        uvicorn.Config(
            null,
            http="httptools",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            ssl_context_factory=lambda *_: tls.context,
        )
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listening]))
        yield listening.getsockname()[1]
        server.should_exit = True


def ring_name(strategy: StrategyName, shards: int) -> RingName:
    """Return the name of the ring with this strategy and this number of shards."""
    return RingName(f"{strategy}-{shards}")


async def serve(sizes: Sequence[int]) -> None:
    """Serve until the standard input ends.

    Prints the ports and the certificate of the authority.  Each line of input names a ring: its
    reservations are dropped, and then an empty line is printed.
    """
    rings = {ring_name(name, n): filled(name, n) for name in STRATEGIES for n in sizes}
    app = webhook_app(
        AdmissionEndpoint(
            rings=rings.get,
            sharders=lambda: frozenset({"sharder"}),
            is_stale=lambda: False,
            metrics=service_metrics(CollectorRegistry(), version=""),
            max_request_bytes=WebhookServer().max_request_bytes,
            trusts=lambda _: True,  # reservations are a part of the cost of an answer
        ),
        readiness=lambda: None,
        validation=RingValidation(()),
    )
    gc.collect()
    gc.freeze()  # as the service does
    authority = Authority("bench")
    identity = authority.issue("localhost", HOST)
    tls = ServerTls(identity.certificate, identity.key)
    async with (
        Server(app, host=HOST, port=0, tls=tls) as webhook,
        serving_null(tls) as null_port,
    ):
        print(json.dumps([webhook.port, null_port, authority.certificate.decode()]), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            forget(rings[RingName(line.strip())])
            print(flush=True)


def forget(snapshot: RingSnapshot) -> None:
    """Age the tally of a ring until all its reservations have expired."""
    if snapshot.tally is not None:
        for _ in range(LIVES + 1):
            snapshot.tally.age()


class Target:
    """The process of `serve`."""

    def __init__(self, process: Process, webhook: int, null: int, trusted: str) -> None:
        """`webhook` and `null` are the ports, `trusted` is the certificate of the authority."""
        self.pid = process.pid
        self.webhook = f"https://{HOST}:{webhook}"
        self.null = f"https://{HOST}:{null}"
        self.trusted = trusted
        self._process = process

    async def forget(self, ring: RingName) -> None:
        """Drop the reservations of a ring."""
        lines, turns = self._process.stdout, self._process.stdin
        assert lines is not None and turns is not None  # noqa: PT018, S101 - they are pipes
        turns.write(f"{ring}\n".encode())
        await lines.readline()


@asynccontextmanager
async def started(*sizes: int) -> AsyncIterator[Target]:
    """Start `serve` with rings of these numbers of shards, and end it after the block."""
    command = (sys.executable, "-m", __name__, *map(str, sizes))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None and process.stdin is not None  # noqa: PT018, S101 - pipes
    try:
        yield Target(process, *json.loads(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


if __name__ == "__main__":
    uvloop.run(serve([int(size) for size in sys.argv[1:]]))
