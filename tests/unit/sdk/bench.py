"""One object of ours with requests about it, for tests of what a request may do."""

from collections.abc import Mapping

import msgspec

from sharder.core.api.meta import Json, Resource
from sharder.core.names import GroupResource, ObjectRef, ShardName
from sharder.sdk import Request
from sharder.sdk.reads.collection import Collected
from sharder.sdk.reads.owned import OwnedObjects
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.strays import Strays
from sharder.sdk.resource_context import ResourceContext
from sharder.sdk.testing.api_server import everything
from sharder.sdk.testing.requests import Client
from sharder.sdk.writes.events import EVENTS, EventRecorder
from sharder.shard.cluster import Documents
from sharder.shard.identity import Identity
from sharder.shard.objects import Document, OwnMeta, OwnObject
from sharder.shard.watched import Watched
from tests.unit.sdk.scene import CONFIGMAPS, ME, RING, SECRETS, HalfWay, Scene

CHILD: Mapping[str, Json] = {
    "kind": "ConfigMap",
    "metadata": {"name": "child", "labels": {"app": "demo"}},
    "data": {"a": "1"},
}
CHILD_REF = ObjectRef("default", "child")
IDENTITY = Identity(ring=RING, shard=ShardName(ME))


class Bench:
    """One object of ours with a request about it, and the means to take it away."""

    def __init__(self, scene: Scene, ref: ObjectRef) -> None:
        self.scene = scene
        self.ref = ref
        self.lease_is_valid = True
        self.owned = OwnedObjects(IDENTITY)
        self.context = ResourceContext(
            identity=IDENTITY,
            owned=self.owned,
            main=self._collected(SECRETS, scene.cluster.documents(SECRETS)),
            children=(self._collected(CONFIGMAPS, scene.cluster.documents(CONFIGMAPS)),),
            holds_lease=lambda: self.lease_is_valid,
            clock=scene.clock,
            events=EventRecorder(scene.cluster.documents(EVENTS), IDENTITY, clock=scene.clock),
        )

    @classmethod
    async def make(cls) -> "Bench":
        scene = Scene()
        bench = cls(scene, await scene.create_secret("one"))
        await bench.refresh()
        return bench

    async def refresh(self) -> None:
        """Show the shard the object as it is now, as the watch does."""
        tree = await self.scene.secrets.get(self.ref)
        self.owned.update(msgspec.convert(tree, OwnObject))

    def request(self) -> Request:
        meta = self.owned.get(self.ref)
        assert meta is not None
        return Request(self.ref, meta, self.context)

    def show(self, labels: dict[str, str], *, uid: str | None = None) -> None:
        meta = self.owned.get(self.ref) or OwnMeta()
        changed = msgspec.structs.replace(meta, labels=labels, uid=uid or meta.uid)
        self.owned.update(OwnObject(metadata=changed))

    def show_generation(self, generation: int) -> None:
        meta = self.request().metadata
        self.owned.update(OwnObject(metadata=msgspec.structs.replace(meta, generation=generation)))

    def lose_lease_while_reading_children(self) -> None:
        def read(client: Client, verb: str, resource: GroupResource, namespace: str) -> bool:
            if resource == CONFIGMAPS.id and verb == "get":
                self.lease_is_valid = False
            return everything(client, verb, resource, namespace)

        self.scene.cluster.server.allows = read

    def _collected(self, resource: Resource, documents: Documents) -> Collected:
        progress = Progress(self.scene.clock)
        strays = Strays(IDENTITY, documents.get, progress)
        cluster, clock = self.scene.cluster, self.scene.clock
        objects = cluster.objects(resource, IDENTITY.selector)
        return Collected(
            resource=resource,
            documents=documents,
            objects=objects,
            watched=Watched(objects, resource, cluster.find, clock=clock, rng=HalfWay()),
            progress=progress,
            strays=strays,
        )

    async def child(self) -> Document:
        return await self.scene.configmaps.get(CHILD_REF)
