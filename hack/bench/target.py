"""What a review costs where it is paid: CPU time of the webhook's server, for each strategy.

`python -m hack.measure_server` prints the table of `hack.measure_placement` with all that a
request takes besides: TLS, HTTP, metrics.  The server is a process of its own, in which the rings
of a size take turns, and only its time counts: the client may be slow.  Names are new in every
round, and what was promised is forgotten after each turn, so that all begin with the same counts.
"""

import asyncio
import gc
import json
import ssl
import sys
import time
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from statistics import median
from typing import Final

import uvloop
from prometheus_client import CollectorRegistry

from hack.certificates import Authority
from hack.measure_placement import GROUP, SIZES, request, show, snapshot_of
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import StrategyName
from sharder.core.errors import NotFound
from sharder.core.names import WEBHOOK_PATH_PREFIX, GroupResource, RingName
from sharder.core.placement.assumption import LIVES
from sharder.core.ring.snapshot import RingSnapshot
from sharder.metrics.registry import Metrics
from sharder.ports import Store
from webhook import RingValidation, Server, ServerTls, create_app
from webhook.body import MAX_REQUEST_BYTES

ROUNDS: Final = 15
REVIEWS: Final = 100
"""In each turn."""

CONNECTIONS: Final = 16

GOAL: Final = 1.5
"""Times ConsistentHash, at 3 shards."""

HOST: Final = "127.0.0.1"
SERVE: Final = "serve"
"""The argument of the process that is measured."""


class NoObjects:
    """A cluster that serves nothing: rings are not judged here."""

    async def find(self, resource: GroupResource) -> Resource:
        """Find nothing."""
        raise NotFound(f"{resource} is not served")

    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> Store[PartialObject]:
        """Have nothing."""
        raise NotFound(f"{resource.id} is not served")


def ring_of(strategy: StrategyName, shards: int) -> RingName:
    """Return by what name the webhook knows a ring."""
    return RingName(f"{strategy}-{shards}")


async def serve() -> None:
    """Serve the webhook until the standard input ends.

    Prints where it listens and whom to trust.  Each line of input is the ring whose turn it was:
    prints the CPU seconds since the last, and forgets what was promised.
    """
    rings = {
        ring_of(name, shards): snapshot_of(name, shards)
        for name in StrategyName
        for shards in SIZES
    }
    authority = Authority("measure")
    identity = authority.issue_server(["localhost"], IPv4Address(HOST))
    app = create_app(
        rings.get,
        sharders=lambda: frozenset({"sharder"}),
        is_stale=lambda: False,
        readiness=lambda: None,
        observer=Metrics(CollectorRegistry(), version="", shard_states=()),
        trusts=lambda _: True,  # what is assumed belongs to what an answer costs
        validation=RingValidation(
            rings=rings.get,
            selected=lambda _: (),
            objects=NoObjects(),
            custom=(),
            max_request_bytes=MAX_REQUEST_BYTES,
        ),
    )
    gc.collect()
    gc.freeze()  # as the service does
    tls = ServerTls(identity.certificate, identity.key)
    async with Server(app, host=HOST, port=0, tls=tls) as server:
        print(json.dumps([server.port, authority.certificate.decode()]), flush=True)
        began = time.process_time()
        while line := await asyncio.to_thread(sys.stdin.readline):
            taken = time.process_time() - began
            forget(rings[RingName(line.strip())])
            print(taken, flush=True)
            began = time.process_time()


def forget(snapshot: RingSnapshot) -> None:
    """Let so much time pass that what was promised has not happened."""
    if snapshot.tally is not None:
        for _ in range(LIVES + 1):
            snapshot.tally.age()


@dataclass(frozen=True, slots=True)
class Webhook:
    """The process of `serve`, and the connections to it, which are kept."""

    lines: StreamReader
    turns: StreamWriter
    connections: Sequence[tuple[StreamReader, StreamWriter]]

    async def answer(self, ring: RingName, bodies: Sequence[bytes]) -> float:
        """Have all of them answered; return the CPU time of one review, in seconds."""
        left = iter(bodies)
        async with asyncio.TaskGroup() as group:
            for reader, writer in self.connections:
                group.create_task(post(reader, writer, WEBHOOK_PATH_PREFIX + ring, left))
        self.turns.write(f"{ring}\n".encode())
        return float(await self.lines.readline()) / len(bodies)


async def post(
    reader: StreamReader, writer: StreamWriter, path: str, bodies: Iterator[bytes]
) -> None:
    """Send one body after the other, each in one piece with its head, as the API server does."""
    for body in bodies:
        head = (
            f"POST {path}?timeout=5s HTTP/1.1\r\nhost: localhost\r\n"
            "user-agent: kube-apiserver-admission\r\naccept: application/json, */*\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        received = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(received.partition("content-length: ")[2].partition("\r\n")[0])
        review = await reader.readexactly(length)
        assert b'"patch"' in review, review  # noqa: S101 - else it measures nothing


@asynccontextmanager
async def started() -> AsyncIterator[Webhook]:
    """Start `serve` in a process of its own, and connect to it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hack.measure_server", SERVE, stdin=PIPE, stdout=PIPE
    )
    lines, turns = process.stdout, process.stdin
    assert lines is not None and turns is not None  # noqa: PT018, S101 - they are pipes
    async with AsyncExitStack() as stack:
        stack.push_async_callback(process.wait)
        stack.callback(turns.close)
        port, trusted = json.loads(await lines.readline())
        context = ssl.create_default_context(cadata=trusted)
        connections = [
            await stack.enter_async_context(connected(port, context)) for _ in range(CONNECTIONS)
        ]
        yield Webhook(lines, turns, connections)


@asynccontextmanager
async def connected(
    port: int, context: ssl.SSLContext
) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    """Hold a connection open."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


async def measured() -> dict[int, dict[StrategyName, float]]:
    """Return the median CPU time of one review by size and strategy, in seconds."""
    async with started() as webhook:
        return {shards: await measured_at(shards, webhook) for shards in SIZES}


async def measured_at(shards: int, webhook: Webhook) -> dict[StrategyName, float]:
    """Return the same of one size: beside large rings, small ones would find cold caches."""
    seconds: dict[StrategyName, list[float]] = {name: [] for name in StrategyName}
    for number in range(ROUNDS):
        bodies = [request(f"new-{number}-{i}", i // GROUP) for i in range(REVIEWS)]
        for name, taken in seconds.items():
            taken.append(await webhook.answer(ring_of(name, shards), bodies))
    return {name: median(taken) for name, taken in seconds.items()}


def main() -> None:
    """Print the table."""
    print("CPU of the webhook's server per review over that of ConsistentHash;", end=" ")
    print(f"at {SIZES[0]} shards at most {GOAL}.\n")
    show(uvloop.run(measured()))


if __name__ == "__main__":
    if sys.argv[1:] == [SERVE]:
        uvloop.run(serve())
    else:
        main()
