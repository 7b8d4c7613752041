"""The HTTP port of a shard, over a socket."""

import asyncio
import logging
from dataclasses import replace

import msgspec
import pytest
from prometheus_client import REGISTRY, Counter

from sharder.core.api.cluster import Right
from sharder.core.names import parse_resource
from sharder.core.texts import Address
from sharder.metrics.shard import process_metrics, shard_metrics
from sharder.sdk import Shard
from sharder.sdk.testing import FakeCluster, ShardTest
from sharder.shard.probes import probes
from tests.unit.sdk.scene import SECRETS, SETTINGS, Controller

HERE = Address("127.0.0.1", 0)


def port_in(caplog: pytest.LogCaptureFixture) -> int:
    """Return the port that a shard has logged."""
    (port,) = [int(m.split()[-1]) for m in caplog.messages if m.startswith("serving health")]
    return port


async def get(port: int, path: str) -> tuple[int, str]:
    """Return status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


async def readiness(
    cluster: FakeCluster, resource: str, caplog: pytest.LogCaptureFixture
) -> list[tuple[int, str]]:
    """Return the answers of a shard that could not list yet, that watches, and that cannot."""
    port = port_in(caplog)
    said = [await get(port, "/readyz")]
    await cluster.advance(60)
    said.append(await get(port, "/readyz"))
    cluster.denied.add(Right(verb="watch", resource=parse_resource(resource)))
    cluster.store(resource).hang_up()
    await cluster.advance(60)
    return [*said, await get(port, "/readyz")]


async def test_a_shard_is_alive_says_why_it_is_not_ready_and_shows_its_metrics() -> None:
    reasons, metrics = ["the Lease is not held", ""], shard_metrics()
    metrics.counts["rest_client_requests_total"].add("GET", "200")

    async with probes(HERE, not_ready=lambda: reasons[0], metrics=metrics) as port:
        alive = await get(port, "/healthz")
        status, waiting = await get(port, "/readyz")
        del reasons[0]
        ready = await get(port, "/readyz")
        measured = await get(port, "/metrics")

    assert alive == (200, '{"alive": true}')
    assert (status, msgspec.json.decode(waiting)) == (
        503,
        {"ready": False, "reason": "the Lease is not held"},
    )
    assert ready == (200, '{"ready": true, "reason": ""}')
    assert measured[0] == 200
    assert 'rest_client_requests_total{code="200",method="GET"} 1.0' in measured[1]


def test_the_metrics_of_a_process_are_beside_those_of_the_author() -> None:
    mine = Counter("mine", "help")
    process_metrics().counts["rest_client_requests_total"].add("GET", "200")

    page = process_metrics().render()[0]

    REGISTRY.unregister(mine)
    assert b"\nmine_total 0.0" in page
    assert b"\nrest_client_requests_total{" in page


async def test_a_shard_is_ready_when_it_holds_its_lease_and_knows_its_objects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cluster = FakeCluster()
    cluster.denied.add(Right(verb="patch", resource=SECRETS.id))
    shard = Shard(ring="demo", settings=replace(SETTINGS, http_address="127.0.0.1:0"))
    shard.reconciler("secrets", Controller())

    async with ShardTest(shard, cluster):
        port = port_in(caplog)
        preparing = await get(port, "/readyz")
        cluster.denied.clear()
        await cluster.advance(5)
        working = await get(port, "/readyz")

    assert [preparing[0], working[0]] == [503, 200]
    assert "resources and rights are not checked yet" in preparing[1]
