"""A cluster with one ring that commands steer, and other clients that write at the same time."""

from typing_extensions import override

from sharder.cli.steering import Steering, steer
from sharder.core.api.meta import Json
from sharder.core.names import EVACUATE_ANNOTATION, ObjectRef
from sharder.sdk.testing.storage import Tree
from sharder.sdk.testing.writer import Admission, Attributes
from tests.support.read_cluster import PERSON, ReadCluster, as_body
from tests.support.values import DEMO, WIDGETS, A, B, obj

IS_EVACUATED = {EVACUATE_ANNOTATION: "true"}


class Racing(Admission):
    """Another client writes right before each of the next writes of the command."""

    def __init__(self, cluster: "Steered") -> None:
        self._cluster, self.races = cluster, 0

    @override
    async def mutate(self, attributes: Attributes) -> Tree:
        if self.races and attributes.call.client is PERSON:
            self.races -= 1
            await self._cluster.annotate(A, {"written": f"before {self.races}"})
        return await super().mutate(attributes)


class Steered(ReadCluster):
    """A cluster that can be written to."""

    def __init__(self) -> None:
        super().__init__()
        self.server.writer.admission = self.writes = Racing(self)

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
        await self.stores[WIDGETS].patch(ObjectRef("default", f"w{number}"), body)
