"""A console over a cluster in memory."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharder.console.console import Console
from sharder.console.models import Ring
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.names import SHARDER_IDENTITY, ObjectRef, RingName, ShardName
from sharder.core.status.phases import ShardPhase
from sharder.core.status.stats import ObjectStats
from tests.support.cluster import Cluster
from tests.support.values import DEMO, A, B


class Scene:
    """The console of the ring `demo`, with the shards a and b."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster()
        self.console = Console(
            cache=self.cluster.cache,
            clock=self.cluster.clock,
            version="1",
            namespace="sharding-system",
            not_ready=lambda: None,
        )

        self.objects = Counter[ShardName]()
        """What the leader counts, once `lead` was called."""

    def lead(self, **shards: int) -> None:
        """Let this replica lead, and count so many objects on `shard-a`, `shard-b` and so on."""
        self.objects.update({ShardName(f"shard-{letter}"): n for letter, n in shards.items()})
        self.console.memory.leads(self._stats)

    def move(self, source: ShardName, target: ShardName) -> None:
        """Let the leader move an object."""
        self.console.memory.moved(DEMO, source, target)
        self.objects[source] -= 1
        self.objects[target] += 1

    def _stats(self, _: RingName) -> ObjectStats:
        return ObjectStats(
            objects=self.objects.total(),
            unassigned=0,
            draining=0,
            by_shard=self.objects,
            has_room=None,
            unowned=0,
        )

    @asynccontextmanager
    async def watched(self, *shards: ShardName) -> AsyncIterator[None]:
        """Let the cluster be watched."""
        async with self.cluster.watched(*(shards or (A, B))):
            yield

    async def look(self) -> Ring:
        """Return the ring as the console shows it now."""
        await self.cluster.settle()
        found = self.console.ring(DEMO)
        assert found is not None
        return found

    async def count(self, **shards: int) -> None:
        """Let the leader have counted so many objects on `shard-a`, `shard-b` and so on."""
        statuses: list[Json] = [
            {"name": f"shard-{letter}", "state": "ready", "objects": n}
            for letter, n in shards.items()
        ]
        await self.write_status(
            objects=sum(shards.values()), unassigned=0, draining=0, shardStatuses=statuses
        )

    async def write_status(self, **fields: Json) -> None:
        await self.cluster.rings.status().patch(ObjectRef("", DEMO), {"status": fields})
        await self.cluster.settle()

    async def condition(self, name: str, status: str, message: str, reason: str = "R") -> None:
        await self.write_status(
            conditions=[{"type": name, "status": status, "reason": reason, "message": message}]
        )

    async def take(self, shard: ShardName) -> None:
        """Let the leader take the Lease of a dead shard."""
        now = format_time(self.cluster.clock.now())
        spec = {"holderIdentity": SHARDER_IDENTITY, "acquireTime": now, "renewTime": now}
        await self.cluster.write_lease(shard, **spec)

    async def annotate(self, shard: ShardName, **annotations: str) -> None:
        changes: dict[str, Json] = {
            f"alpha.sharding.timebertt.dev/{key}": value for key, value in annotations.items()
        }
        ref = ObjectRef("default", shard)
        await self.cluster.leases.patch(ref, {"metadata": {"annotations": changes}})

    async def label(self, shard: ShardName, **labels: str) -> None:
        changes: dict[str, Json] = {**labels}
        ref = ObjectRef("default", shard)
        await self.cluster.leases.patch(ref, {"metadata": {"labels": changes}})


def phases(ring: Ring) -> dict[str, ShardPhase]:
    """The phase of each listed shard, in the order of the list."""
    return {shard.name: shard.phase for shard in ring.shard_list}
