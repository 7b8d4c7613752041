"""What every `sharder.shard.cluster.Cluster` does, in memory or on a server."""

from dataclasses import dataclass

import msgspec
import pytest

from sharder.core.api.meta import Json, Resource
from sharder.core.errors import Conflict, NotFound, Rejected
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk import Document
from sharder.shard.cluster import Cluster

CONFIG_MAPS = GroupResource("", "configmaps")
DEPLOYMENTS = GroupResource("apps", "deployments")
FINALIZER = "example.com/hold"

CONTAINER: Json = {"name": "a", "image": "example.com/a"}
DEPLOYMENT: Json = {
    "metadata": {"name": "a"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [CONTAINER]},
        },
    },
    "status": {"observedGeneration": 7},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster with an empty namespace."""

    cluster: Cluster
    namespace: str

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.namespace, "a")

    async def create_map(self, *finalizers: str) -> Resource:
        maps = await self.cluster.find(CONFIG_MAPS)
        metadata: Json = {"name": "a", "finalizers": finalizers}
        body: Json = {"metadata": metadata, "data": {"k": "v"}}
        await self.cluster.documents(maps).create(self.namespace, body)
        return maps

    async def create_deployment(self) -> Resource:
        deployments = await self.cluster.find(DEPLOYMENTS)
        await self.cluster.documents(deployments).create(self.namespace, DEPLOYMENT)
        return deployments

    async def read(self, resource: Resource) -> Document:
        document: Document = msgspec.json.decode(
            await self.cluster.documents(resource).get(self.ref)
        )
        return document

    async def metadata(self, resource: Resource) -> dict[str, Json]:
        metadata = (await self.read(resource))["metadata"]
        assert isinstance(metadata, dict)
        return metadata

    async def delete(self, resource: Resource) -> None:
        metadata = await self.metadata(resource)
        await self.cluster.documents(resource).delete(
            self.ref, uid=str(metadata["uid"]), resource_version=str(metadata["resourceVersion"])
        )


class ClusterContract:
    """Subclasses give the fixture `place`."""

    async def test_an_object_is_read_as_it_was_created(self, place: Place) -> None:
        maps = await place.create_map()

        read = await place.read(maps)

        assert (read["apiVersion"], read["kind"], read["data"]) == ("v1", "ConfigMap", {"k": "v"})

    async def test_what_is_not_served_is_not_found(self, place: Place) -> None:
        with pytest.raises(NotFound):
            await place.cluster.find(GroupResource("example.com", "gadgets"))

    async def test_a_patch_of_an_older_state_is_a_conflict(self, place: Place) -> None:
        maps = await place.create_map()
        documents = place.cluster.documents(maps)
        version = (await place.metadata(maps))["resourceVersion"]
        await documents.patch(place.ref, {"data": {"k": "w"}})

        with pytest.raises(Conflict):
            await documents.patch(place.ref, {"metadata": {"resourceVersion": version}})

    async def test_a_deleted_object_with_a_finalizer_stays_until_it_is_removed(
        self, place: Place
    ) -> None:
        maps = await place.create_map(FINALIZER)
        await place.delete(maps)
        deleted = await place.metadata(maps)

        removal: Json = {"metadata": {"finalizers": []}}
        await place.cluster.documents(maps).patch(place.ref, removal)

        assert deleted["deletionTimestamp"]
        with pytest.raises(NotFound):
            await place.read(maps)

    async def test_a_deleted_object_gets_no_new_finalizer(self, place: Place) -> None:
        maps = await place.create_map(FINALIZER)
        await place.delete(maps)
        addition: Json = {"metadata": {"finalizers": [FINALIZER, "example.com/more"]}}

        with pytest.raises(Rejected, match="no new finalizers"):
            await place.cluster.documents(maps).patch(place.ref, addition)

        await place.cluster.documents(maps).patch(place.ref, {"metadata": {"finalizers": None}})

    async def test_a_change_of_the_spec_raises_the_generation_and_no_other_does(
        self, place: Place
    ) -> None:
        deployments = await place.create_deployment()
        documents = place.cluster.documents(deployments)
        seen = [await place.metadata(deployments)]
        for change in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 2}}):
            await documents.patch(place.ref, change)
            seen.append(await place.metadata(deployments))

        assert [metadata["generation"] for metadata in seen] == [1, 1, 2]

    async def test_a_config_map_has_no_generation(self, place: Place) -> None:
        maps = await place.create_map()
        await place.cluster.documents(maps).patch(place.ref, {"data": {"k": "w"}})

        assert "generation" not in await place.metadata(maps)

    async def test_the_status_is_written_apart_from_the_rest(self, place: Place) -> None:
        deployments = await place.create_deployment()
        created = (await place.read(deployments)).get("status", {})
        both: Json = {"spec": {"replicas": 3}, "status": {"observedGeneration": 5}}

        await place.cluster.documents(deployments).patch(place.ref, {"status": both})
        unchanged = (await place.read(deployments)).get("status", {})
        await place.cluster.documents(deployments).status().patch(place.ref, both)
        changed = await place.read(deployments)

        assert created == unchanged == {}
        assert changed["status"] == {"observedGeneration": 5}
        assert isinstance(changed["spec"], dict)
        assert changed["spec"]["replicas"] == 1
