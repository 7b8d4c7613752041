"""Two sharders behind one port, as the pods of a Service are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hack.control_plane import ControlPlane
from hack.playground import RING, Playground, wait_until_ready
from sharder.metrics.registry import PREFIX
from tests.support.forwarder import Forwarder
from tests.support.samples import total

REPLICAS = ("sharder-0", "sharder-1")
LEASE_SECONDS = 60
"""Of shards: shorter ones are lost on a busy machine during a flood."""
FAST_ELECTION = {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"}


class Replicas:
    """The sharders, reached through one port."""

    def __init__(self, playground: Playground, service: Forwarder) -> None:
        self.playground = playground
        self._service = service

    async def start(self) -> None:
        """Start both at the same moment; return when the API server is led to them."""
        for name in REPLICAS:
            self.playground.start_sharder(name, gracefulShutDown="0s")
        for name in REPLICAS:
            await wait_until_ready(self.playground, name)
        self._service.lead_to(*map(self.playground.webhook_port, REPLICAS))

    async def metric(self, sharder: str, name: str) -> float:
        """Return the sum of a sharder's samples of the ring, 0 if there are none."""
        scrape = await asyncio.to_thread(self.playground.scrape, sharder)
        return total(scrape, PREFIX + name, controllerring=RING)


@asynccontextmanager
async def two_sharders() -> AsyncIterator[Replicas]:
    """Start them on a control plane of their own; all ends with the block."""
    with ControlPlane() as plane, Forwarder() as service:
        playground = Playground(plane, lease_seconds=LEASE_SECONDS, service_port=service.port)
        playground.install()
        replicas = Replicas(playground, service)
        await replicas.start()
        yield replicas
