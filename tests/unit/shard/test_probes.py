"""The HTTP port of a shard, over a socket."""

import asyncio
import logging
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from sharder.core.addresses import Address
from sharder.core.api.cluster import Right
from sharder.metrics.shard import ShardMetrics
from sharder.sdk import Shard
from sharder.sdk.testing.fake_clock import FixedRng
from sharder.shard.probes import probes
from tests.support.eventually import eventually
from tests.unit.sdk.scene import SECRETS, SETTINGS, Controller, Scene

HERE = Address("127.0.0.1", 0)


async def get(port: int, path: str) -> tuple[int, str]:
    """Return status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


async def test_a_shard_is_alive_and_says_why_it_is_not_ready() -> None:
    reasons = ["the Lease is not held", ""]

    async with probes(HERE, not_ready=lambda: reasons[0], metrics=ShardMetrics()) as port:
        alive = await get(port, "/healthz")
        status, waiting = await get(port, "/readyz")
        del reasons[0]
        ready = await get(port, "/readyz")

    assert alive == (200, '{"alive": true}')
    assert (status, msgspec.json.decode(waiting)) == (
        503,
        {"ready": False, "reason": "the Lease is not held"},
    )
    assert ready == (200, '{"ready": true, "reason": ""}')


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    metrics = ShardMetrics()
    metrics.requested("GET", "200")

    async with probes(HERE, not_ready=str, metrics=metrics) as port:
        status, body = await get(port, "/metrics")

    assert status == 200
    assert 'rest_client_requests_total{code="200",method="GET"} 1.0' in body


def test_the_metrics_of_a_process_are_beside_those_of_the_author() -> None:
    program = (
        "import prometheus_client, sharder.sdk\n"
        "from sharder.metrics.shard import process_metrics\n"
        "prometheus_client.Counter('mine', 'help').inc()\n"
        "process_metrics().requested('GET', '200')\n"
        "print(process_metrics().render()[0].decode())"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert b"\nmine_total 1.0" in done.stdout
    assert b"\nrest_client_requests_total{" in done.stdout


async def test_a_shard_is_ready_when_it_holds_its_lease_and_knows_its_objects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    right = Right(verb="patch", resource=SECRETS.id)
    scene.cluster.denied = {right}
    settings = replace(SETTINGS, http_address="127.0.0.1:0")
    shard = Shard(ring="demo", settings=settings)
    shard.reconciler("secrets", Controller())

    async with asyncio.TaskGroup() as group:
        group.create_task(shard.serve_on(scene.cluster, clock=scene.clock, rng=FixedRng()))

        async def port_logged() -> int:
            _, _, port = caplog.text.partition("serving health and metrics on port ")
            return int(port.split()[0])

        port = await eventually(port_logged, within=10)
        preparing = await get(port, "/readyz")
        scene.cluster.denied = set()
        await scene.clock.advance(5)
        working = await get(port, "/readyz")
        shard.stop()

    assert [preparing[0], working[0]] == [503, 200]
    assert "resources and rights are not checked yet" in preparing[1]
