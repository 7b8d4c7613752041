"""A cluster with one ring that commands steer, and other clients that write at the same time."""

from dataclasses import replace

from typing_extensions import override

from sharder.cli.steering import Steering, steer
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.names import EVACUATE_ANNOTATION, ObjectRef
from sharder.kube.typed_stores import LEASES
from tests.support.fake_store import FakeStore
from tests.support.read_cluster import ReadCluster, as_body
from tests.support.values import DEMO, WIDGETS, A, B, obj

IS_EVACUATED = {EVACUATE_ANNOTATION: "true"}


class Racing(FakeStore[Lease]):
    """Another client writes right before each of the next writes."""

    races = 0

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        if self.races:
            self.races -= 1
            other: Json = {"metadata": {"annotations": {"written": f"before {self.races}"}}}
            await super().patch(ref, other)
        return await super().patch(ref, body)


class Steered(ReadCluster):
    """A cluster that can be written to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = Racing(Lease, LEASES)
        self.writes._state = self.leases._state
        self.cluster = replace(self.cluster, leases=self.writes)

    async def steer(self, steering: Steering, name: str = A) -> str:
        return await steer(self.cluster, steering, DEMO, name, dry_run=False)

    async def annotate(self, shard: str, annotations: dict[str, str | None]) -> None:
        ref = ObjectRef("default", shard)
        await self.leases.patch(ref, {"metadata": {"annotations": annotations}})

    async def annotations(self, shard: str = A) -> dict[str, str]:
        found = await self.leases.get(ObjectRef("default", shard))
        return found.metadata.annotations or {}

    async def pause(self) -> None:
        await self.rings.patch(ObjectRef("", DEMO), {"spec": {"movement": {"paused": True}}})

    async def give(self, number: int, shard: str = A) -> None:
        await self.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=shard))

    async def move(self, number: int, shard: str = B) -> None:
        labels = as_body(obj(WIDGETS, "x", owner=shard).metadata)
        assert isinstance(labels, dict)
        body: Json = {"metadata": {"labels": labels["labels"]}}
        await self.objects.stores[WIDGETS].patch(ObjectRef("default", f"w{number}"), body)
