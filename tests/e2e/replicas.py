"""Two sharders behind one port, as the pods of a Service are."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM, Playground, wait_until_ready
from sharder.core.names import ObjectRef
from sharder.kube.client import Client
from sharder.kube.typed_stores import leases
from sharder.metrics.registry import PREFIX
from tests.support.eventually import eventually
from tests.support.forwarder import Forwarder
from tests.support.samples import total

REPLICAS = ("sharder-0", "sharder-1")
LEASE_SECONDS = 10
"""Of shards: shorter ones are lost on a busy machine while hundreds of objects move."""
FAST_ELECTION = {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"}


class Replicas:
    """The sharders, reached through one port, as the pods of a Service are."""

    def __init__(self, playground: Playground, service: Forwarder) -> None:
        self.playground = playground
        self._service = service

    def start(self, **config: object) -> None:
        """Start all that do not run, at the same moment."""
        for name in REPLICAS:
            self.playground.start_sharder(name, gracefulShutDown="0s", **config)
        for name in REPLICAS:
            asyncio.run(wait_until_ready(self.playground, name))
        self.serve_from(*REPLICAS)

    def stop(self) -> None:
        """End all."""
        for name in REPLICAS:
            self.playground.stop(name)

    def kill(self) -> None:
        """End all by SIGKILL."""
        for name in REPLICAS:
            self.playground.kill(name)

    async def metric(self, sharder: str, name: str, ring: str) -> float:
        """Return the sum of a sharder's samples of a ring, 0 if there are none."""
        scrape = await asyncio.to_thread(self.playground.scrape, sharder)
        return total(scrape, PREFIX + name, controllerring=ring)

    def serve_from(self, *names: str) -> None:
        """Lead the API server to these alone, as a Service does with pods that are ready."""
        self._service.lead_to(*map(self.playground.webhook_port, names))

    async def leader(self, client: Client) -> str:
        """Return the holder of the leader Lease, empty if it is not held."""
        lease = await leases(client).get(ObjectRef(SYSTEM, "sharder"))
        return (lease.spec.holder_identity or "").partition("_")[0]

    async def until_another_leads(self, client: Client, first: str) -> str:
        """Wait for a leader that is not `first` and return it."""

        async def successor() -> str:
            leader = await self.leader(client)
            assert leader not in {first, ""}
            return leader

        return await eventually(successor, within=30)


@contextmanager
def two_sharders(**config: object) -> Iterator[Replicas]:
    """Start them on a control plane of their own; all ends with the block."""
    with ControlPlane() as plane, Forwarder() as service:
        playground = Playground(plane, lease_seconds=LEASE_SECONDS, service_port=service.port)
        playground.install()
        replicas = Replicas(playground, service)
        replicas.start(**config)
        yield replicas
