"""Two replicas behind one Service: one certificate, one leader, and no harm when that one goes."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from hack.ownership import create_secrets, observing
from hack.playground import Playground
from sharder.kube.client import Client
from tests.e2e.replicas import FAST_ELECTION, REPLICAS, Replicas, two_sharders
from tests.e2e.trace import Trace, tracing
from tests.support.eventually import eventually
from tests.support.figures import show

BREAKING_SECONDS = 0.3
SLOW_MOVES = {"sharder": {"concurrentMoves": 4}}
"""So that a pass over the ring takes a while, in which its leader can be stopped."""
OBJECTS = 1000
LEASE_SECONDS = 15
"""Of the leader's Lease, by default."""


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    """Both start at the same moment; two shards and their objects are there."""
    with two_sharders() as replicas:
        for shard in ("shard-0", "shard-1"):
            replicas.playground.start_shard(shard)
        asyncio.run(_populate(replicas.playground))
        yield replicas


def test_replicas_that_start_together_serve_one_certificate(replicas: Replicas) -> None:
    shown = {
        ssl.get_server_certificate(("127.0.0.1", replicas.playground.webhook_port(name)))
        for name in REPLICAS
    }

    assert len(shown) == 1


async def test_when_the_leader_is_killed_another_leads_and_every_object_is_created_with_an_owner(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    born: list[str] = []
    async with _watching(replicas) as (trace, client):
        first = await replicas.leader(client)
        began = time.monotonic()
        await asyncio.to_thread(replicas.playground.kill, first)
        # No replica answers a request on a connection that breaks at this moment.
        await asyncio.sleep(BREAKING_SECONDS)
        async with asyncio.TaskGroup() as group:
            creating = group.create_task(_create_on_and_on(client, born))
            await replicas.until_another_leads(client, first)
            seconds = time.monotonic() - began
            creating.cancel()
        await _until_seen(trace, born[-1])

    show(capsys, f"killed leader followed after {seconds:.1f} s; {len(born)} objects created")
    assert [name for name in born if trace.first(name).owner not in {"shard-0", "shard-1"}] == []
    assert len(born) > 50
    assert seconds <= 2 * LEASE_SECONDS


async def test_a_leader_that_is_paused_in_a_resync_and_resumed_into_its_successors_does_no_harm(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(replicas.stop)
    await asyncio.to_thread(replicas.start, leaderElection=FAST_ELECTION, controller=SLOW_MOVES)
    async with _watching(replicas) as (trace, client):
        first = await replicas.leader(client)
        mark = trace.last_revision()
        replicas.playground.start_shard("shard-2")
        await eventually(lambda: _has_moved(trace, mark, 20), within=30)
        await _pause(replicas, first)
        moved = len(_moved(trace, mark))
        await replicas.until_another_leads(client, first)
        replicas.playground.resume(first)
        replicas.serve_from(*REPLICAS)
        await _until_settled(replicas, trace, {"shard-0", "shard-1", "shard-2"})
        settled = trace.versions()
        await asyncio.sleep(3)

    show(capsys, f"paused after {moved} of {len(_moved(trace, mark))} moves to a shard that joins")
    assert moved < len(_moved(trace, mark))
    assert (trace.returns(), trace.robberies()) == ([], [])
    assert trace.versions() == settled


async def _populate(playground: Playground) -> None:
    async with observing(playground.author) as (observer, client):
        await observer.settled({"shard-0", "shard-1"}, within=60)
        await create_secrets(client, [f"secret-{index:04}" for index in range(OBJECTS)])
        await observer.settled({"shard-0", "shard-1"}, within=120)


@asynccontextmanager
async def _watching(replicas: Replicas) -> AsyncIterator[tuple[Trace, Client]]:
    """Record what happens from a moment at which everything was seen."""
    async with observing(replicas.playground.author) as (_, client), tracing(client) as trace:
        await eventually(lambda: _has_seen(trace, 2 * OBJECTS), within=30)
        yield trace, client


async def _has_seen(trace: Trace, objects: int) -> bool:
    return len(trace.now) >= objects and bool(trace.leases)


async def _until_seen(trace: Trace, name: str) -> None:
    async def seen() -> bool:
        return any(w.obj.metadata.name == name for w in reversed(trace.secrets))

    await eventually(seen, within=10)


async def _create_on_and_on(client: Client, born: list[str]) -> None:
    """Create objects one by one until cancelled; note those that the API server has taken."""
    while True:
        name = f"during-{len(born):04}"
        await create_secrets(client, [name])
        born.append(name)
        await asyncio.sleep(0.02)


async def _pause(replicas: Replicas, leader: str) -> None:
    """Stop the leader; the Service notices, as it does when probes fail."""
    await asyncio.to_thread(replicas.playground.pause, leader)
    replicas.serve_from(*(name for name in REPLICAS if name != leader))


def _moved(trace: Trace, mark: int) -> set[str]:
    """Return the Secrets that were drained or given away after revision `mark`."""
    before = {w.obj.metadata.uid: w.owner for w in trace.secrets if w.revision <= mark}
    return {
        w.obj.metadata.name
        for w in trace.secrets
        if w.revision > mark and (w.is_draining or w.owner != before[w.obj.metadata.uid])
    }


async def _has_moved(trace: Trace, mark: int, count: int) -> bool:
    return len(_moved(trace, mark)) >= count


async def _until_settled(replicas: Replicas, trace: Trace, live: set[str]) -> None:
    """Wait until nothing is at fault, and the trace knows it all."""
    async with observing(replicas.playground.author) as (observer, _):
        await observer.settled(live, within=90)
    before: dict[str, int] = {}
    while before != trace.versions():
        before = trace.versions()
        await asyncio.sleep(1)
