"""A proxy on a cluster in memory, with a controller that watches."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest

from sharder.core.api.ring import ControllerRing
from sharder.core.errors import Unavailable
from sharder.core.names import WATCHES_ANNOTATION, GroupResource, ObjectRef
from sharder.proxy.proxy import Proxy
from sharder.proxy.server import ProxyServer
from sharder.proxy.streams import Selectors, Sight
from sharder.proxy.view import Options
from sharder.sdk.testing import FakeCluster
from sharder.shard.settings import Settings
from tests.unit.proxy.conftest import JOBS, RING
from tests.unit.shard.test_probes import readiness


@asynccontextmanager
async def listen(server: ProxyServer) -> AsyncIterator[None]:
    for name in ("secrets", "nodes", *(f"z{number:060}" for number in range(9000))):
        server._view.watches(GroupResource("", name))
    with server._view.streams.opened(Sight(JOBS, "", Selectors()), "1"):
        yield


async def test_it_waits_for_an_api_server_and_is_ready_while_it_watches(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cluster = FakeCluster()
    spec = {"resources": [{"group": "batch", "resource": "jobs"}]}
    cluster.rings[RING] = msgspec.convert({"metadata": {}, "spec": spec}, ControllerRing)
    settings = Settings(name="a", namespace="default", http_address="127.0.0.1:0")
    proxy = Proxy(RING, settings, options=Options(), clock=cluster.clock, rng=random.Random(1))
    cluster.disconnect()
    serving = asyncio.ensure_future(proxy.serve_on(cluster, Mock(), listen))
    await cluster.advance(5)
    cluster.store("jobs.batch").fail(*[Unavailable("not now")] * 9)
    await cluster.connect()
    await cluster.advance(5)
    said = await readiness(cluster, "jobs.batch", caplog)

    lease = await cluster.lease_store.get(ObjectRef("default", "a"))
    assert lease.metadata.annotation(WATCHES_ANNOTATION).startswith("nodes,secrets,z")
    assert len(lease.metadata.annotation(WATCHES_ANNOTATION)) < 256 * 1024
    assert [status for status, _ in said] == [503, 200, 503]
    assert "not listed yet" in said[0][1]
    assert "cannot watch jobs.batch" in said[2][1]
    proxy.stop()
    await cluster.advance(5)
    await serving


async def test_it_says_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Mock(sleep=AsyncMock())
    view = Mock(absence=Mock(side_effect=["no health", "no health", "no watch", ""]))
    await Proxy(RING, Mock(), options=Options(), clock=clock, rng=Mock())._until_working(view, {})

    assert [record.args for record in caplog.records[:-1]] == [("no health",), ("no watch",)]
