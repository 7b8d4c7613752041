"""What the console of a leader shows while its ring changes: the whole replica, in memory."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharder.console.console import Console
from sharder.console.models import Health, Ring
from sharder.core.names import EVACUATE_ANNOTATION, ObjectRef, ShardName
from tests.support.cluster import Cluster
from tests.support.replica import Replica
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, SECRETS, A, B, C


class Play:
    """A leader with a console, and shards that renew their Leases and release their objects."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.console = Console(
            cache=self.cluster.cache,
            clock=self.cluster.clock,
            version="1",
            namespace="sharding-system",
            not_ready=lambda: None,
        )
        self.live, self.stuck = {A, B}, set[str]()
        self.wrong = list[tuple[Counter[str], Counter[str]]]()
        """What the console shows of each shard, where that is not the truth."""

    @asynccontextmanager
    async def playing(self) -> AsyncIterator["Play"]:
        """Let A and B share 20 parents with a child each."""
        replica = Replica(self.cluster, self.console.memory)
        async with self.cluster.watched(A, B), replica.running():
            for number in range(20):
                shard = A if number % 2 else B
                parent = await self.cluster.add(SECRETS, f"s{number}", owner=shard)
                await self.cluster.add(CONFIGMAPS, f"c{number}", owner=shard, controlled_by=parent)
            await self.go(40)  # objects are counted every 30 s
            self.wrong.clear()
            yield self

    async def go(self, seconds: float) -> list[Ring]:
        """Let time pass, with a look every tenth of a second, and return what is shown."""
        shown = list[Ring]()
        for tenth in range(round(10 * seconds)):
            for shard in self.live if tenth % 20 == 0 else ():
                await self.cluster.renew(shard)
            await self.cluster.clock.advance(0.1)
            secrets = (await self.cluster.store(SECRETS).list()).items
            asked = [obj for obj in secrets if obj.metadata.has_label(DRAIN)]
            for obj in [obj for obj in asked if obj.metadata.name not in self.stuck][:3]:
                await self.cluster.acknowledge(obj, SECRETS)
            await self.cluster.settle()
            shown.append(await self.look())
        return shown

    async def look(self) -> Ring:
        ring = self.console.ring(DEMO)
        assert ring is not None
        owners = (await self.cluster.owners(SECRETS)).values()
        true = Counter(shard.strip("*") for shard in owners)
        shows = Counter({shard.name: shard.objects or 0 for shard in ring.shard_list})
        shows += Counter({"": ring.unassigned or 0})
        self.wrong += [(shows, true)] if shows != true else []
        return ring

    async def evacuate(self, shard: ShardName) -> None:
        annotations = {EVACUATE_ANNOTATION: "true"}
        await self.cluster.leases.patch(
            ObjectRef("default", shard), {"metadata": {"annotations": annotations}}
        )


async def test_a_rollout_is_green_and_every_object_is_counted_once() -> None:
    async with Play().playing() as play:
        await play.cluster.join(C)
        play.live.add(C)
        shown = await play.go(10)
        for old in (A, B):
            play.live.remove(old)
            await play.cluster.leave(old)
            shown += await play.go(10)

    assert {ring.health for ring in shown} == {Health.OK, Health.MOVING}
    assert [fault for ring in shown for fault in ring.faults] == []
    assert ({ring.objects for ring in shown}, play.wrong) == ({20}, [])
    assert not any(event.warning for event in shown[-1].events)


async def test_a_killed_shard_is_late_and_no_fault_once_its_objects_are_placed() -> None:
    async with Play().playing() as play:
        play.live.remove(A)
        shown = await play.go(42)

    headlines = list(dict.fromkeys(ring.headline for ring in shown))
    assert headlines == [
        "20 objects on 2 shards, each with an owner",
        "Shard shard-a is late",
        "Objects are moving; 20 objects on 1 shard",
        "20 objects on 1 shard, each with an owner",
    ]
    assert ({ring.objects for ring in shown}, play.wrong) == ({20}, [])
    assert shown[-1].faults == ()
