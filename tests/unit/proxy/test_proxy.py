"""How a proxy begins."""

import random
from contextlib import AbstractAsyncContextManager
from unittest.mock import Mock

import pytest
from typing_extensions import override

from sharder.core.api.meta import ObjectMeta, Resource
from sharder.core.api.ring import ControllerRing, RingResource, RingSpec
from sharder.core.errors import Unavailable
from sharder.core.names import GroupResource, RingName
from sharder.proxy.proxy import Options, Proxy
from sharder.proxy.server import ProxyServer
from sharder.runtime.clock import SystemClock
from sharder.shard.cluster import Cluster
from sharder.shard.settings import Settings


class Blinking(Cluster):
    """A cluster that answers the first request, and not the second."""

    def __init__(self) -> None:
        self.asked = 0

    @override
    async def ring(self, name: RingName) -> ControllerRing:
        spec = RingSpec(resources=(RingResource(group="batch", resource="jobs"),))
        return ControllerRing(metadata=ObjectMeta(name=name), spec=spec)

    @override
    async def find(self, resource: GroupResource) -> Resource:
        self.asked += 1
        if self.asked == 1:
            raise Unavailable("not now")
        return Resource(id=resource, version="v1", kind="Job", namespaced=True)


class Reached(Exception):
    """It listens."""


def listen(_: ProxyServer) -> AbstractAsyncContextManager[None]:
    raise Reached


async def test_it_waits_for_an_api_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharder.proxy.proxy._RETRY_SECONDS", 0.01)
    settings = Settings(name="a", namespace="demo")
    proxy = Proxy(
        RingName("jobs"), settings, options=Options(), clock=SystemClock(), rng=random.Random(1)
    )

    with pytest.raises(Reached):
        await proxy.serve_on(Blinking(), Mock(), listen)
