"""The endpoints of a Service, without a kubelet: who is ready is asked each second, and told late.

That is what lies between a pod and its traffic in a cluster: the probe, the EndpointSlice, and the
proxy of each node.
"""

import asyncio
import random
from dataclasses import dataclass, field

from hack.playground import Playground
from tests.support.forwarder import Forwarder

POLL_SECONDS = 1.0
LATE_SECONDS = (1.0, 2.0)
"""Between the probe that saw a change and the first connection that goes by it."""


@dataclass(slots=True)
class Endpoints:
    """Leads a forwarder to those replicas that called themselves ready a while ago."""

    playground: Playground
    service: Forwarder
    rng: random.Random
    listed: list[str] = field(default_factory=list)
    """Names of the replicas that get calls."""
    _asked: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def add(self, name: str) -> None:
        """Ask this replica too, which was started; one that has ended is not ready."""
        self._asked.append(name)

    async def follow(self) -> None:
        """Ask all replicas each second, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for name in tuple(self._asked):
                    is_ready = await asyncio.to_thread(self._is_ready, name)
                    if is_ready != (name in self._seen):
                        self._seen ^= {name}
                        group.create_task(self._tell(name, is_ready=is_ready))
                await asyncio.sleep(POLL_SECONDS)

    async def _tell(self, name: str, *, is_ready: bool) -> None:
        await asyncio.sleep(self.rng.uniform(*LATE_SECONDS))
        if is_ready:
            self.listed.append(name)
        else:
            self.listed.remove(name)
        self.service.offer(*map(self.playground.webhook_port, self.listed))

    def _is_ready(self, name: str) -> bool:
        try:
            return self.playground.is_ready(name)
        except RuntimeError:
            return False
