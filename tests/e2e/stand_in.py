"""Shards that are a Lease and nothing else, and a kubelet for those that are processes."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from hack.playground import CONTROLLER, SHARDS, Playground
from sharder.core.errors import LeaseLost
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.kube.client import connect
from sharder.kube.typed_stores import leases
from sharder.runtime.clock import SystemClock
from sharder.runtime.lease_lock import LeaseHolder


class StandIn:
    """Holds a Lease of a ring as a shard does, and never lets an object go."""

    def __init__(self, holder: LeaseHolder) -> None:
        self._holder = holder

    async def join(self) -> None:
        """Take the Lease."""
        await self._holder.acquire()

    async def live(self) -> None:
        """Hold the Lease until cancelled; a lost one is taken again."""
        while True:
            await self.join()
            try:
                await self._holder.keep()
            except LeaseLost:
                continue

    async def leave(self) -> None:
        """Give the Lease back."""
        await self._holder.release()


@asynccontextmanager
async def stand_ins(
    kubeconfig: str, ring: str, seconds: Mapping[str, int]
) -> AsyncIterator[dict[str, StandIn]]:
    """Connect stand-ins by name, each with a Lease of so many seconds."""
    client = await connect(kubeconfig)
    try:
        yield {
            name: StandIn(
                LeaseHolder(
                    leases(client, namespace=SHARDS),
                    ObjectRef(SHARDS, name),
                    name,
                    clock=SystemClock(),
                    rng=random.Random(1),
                    timing=_timing(duration),
                    labels={RING_LABEL: ring},
                )
            )
            for name, duration in seconds.items()
        }
    finally:
        await client.close()


async def keep_running(
    playground: Playground,
    names: Iterable[str],
    restarts: list[str],
    command: Sequence[str] = CONTROLLER,
    **environment: str,
) -> None:
    """Start shards that have ended, as a kubelet does, until cancelled; note each start anew."""
    while True:
        for name in names:
            if await asyncio.to_thread(playground.exit_code, name) is not None:
                restarts.append(name)
                playground.start_shard(name, command, **environment)
        await asyncio.sleep(0.5)


def lease_environment(seconds: int) -> dict[str, str]:
    """Return the variables of a shard whose Lease lasts so many seconds."""
    timing = _timing(seconds)
    return {
        "SHARD_LEASE_DURATION": str(timing.lease_duration),
        "SHARD_RENEW_DEADLINE": str(timing.renew_deadline),
        "SHARD_RETRY_PERIOD": str(timing.retry_period),
    }


def _timing(seconds: int) -> LeaseTiming:
    return LeaseTiming(
        lease_duration=seconds, renew_deadline=seconds * 2 / 3, retry_period=seconds / 7.5
    )
