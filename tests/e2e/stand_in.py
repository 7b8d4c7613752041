"""Shards that are a Lease and nothing else."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hack.playground import SHARDS
from sharder.core.errors import LeaseLost
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.kube.client import connect
from sharder.kube.typed_stores import leases
from sharder.runtime.clock import SystemClock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.lease_record import Candidate


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
                    Candidate(name, labels={RING_LABEL: ring}),
                    clock=SystemClock(),
                    rng=random.Random(1),
                    timing=_timing(duration),
                )
            )
            for name, duration in seconds.items()
        }
    finally:
        await client.close()


def _timing(seconds: int) -> LeaseTiming:
    return LeaseTiming(
        lease_duration=seconds, renew_deadline=seconds * 2 / 3, retry_period=seconds / 7.5
    )
