"""Nothing is taken from a shard that works, whatever happens to its Lease."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.kube.client import connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import LEASES, leases
from sharder.ports import Changed, Listed, Watchable
from sharder.runtime.clock import SystemClock
from sharder.runtime.reflector import follow
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, TENANTS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN, User

MANY: Final = 2000
WHILE_SECONDS: Final = 4.0
"""For how long it is watched that nothing happens: a takeover begins within milliseconds."""


async def owned_by(scene: Scene, letter: str, count: int = 5) -> list[PartialObject]:
    """Create objects until so many belong to a shard; return those."""
    found = list[PartialObject]()
    for number in range(1000):
        obj = await scene.create(CONFIGMAPS, f"object-{number}")
        if scene.owner_of(obj) == scene.shard(letter):
            found.append(obj)
        if len(found) == count:
            return found
    raise AssertionError(f"nothing belongs to {scene.shard(letter)}")


async def assert_untouched(scene: Scene, objects: list[PartialObject]) -> None:
    """Nothing writes the objects for a while."""
    await asyncio.sleep(WHILE_SECONDS)
    for obj in objects:
        assert (await scene.get(CONFIGMAPS, obj)).metadata == obj.metadata


async def until_new_objects_go_elsewhere(scene: Scene, letter: str) -> None:
    """Wait until a shard gets nothing new."""
    scene.shards.discard(scene.shard(letter))
    await scene.until_admitting(CONFIGMAPS)


async def patch_lease(scene: Scene, letter: str, body: Json) -> None:
    await scene.admin.patch(LEASES, scene.shard(letter), body, namespace=CONTROLLERS)


async def test_a_shard_whose_lease_is_deleted_keeps_its_objects_and_gets_nothing_new(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        mine = await owned_by(scene, "a")

        await scene.admin.delete(LEASES, scene.shard("a"), namespace=CONTROLLERS)

        await until_new_objects_go_elsewhere(scene, "a")
        await assert_untouched(scene, mine)
        await scene.join("a")
        await scene.until_admitting(CONFIGMAPS)


async def test_a_shard_whose_lease_loses_its_label_keeps_its_objects_and_gets_nothing_new(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        mine = await owned_by(scene, "a")

        await patch_lease(scene, "a", {"metadata": {"labels": {RING_LABEL: None}}})

        await until_new_objects_go_elsewhere(scene, "a")
        await assert_untouched(scene, mine)
        await scene.admin.delete(LEASES, scene.shard("a"), namespace=CONTROLLERS)


async def test_a_shard_whose_lease_becomes_invalid_is_drained_and_keeps_its_objects_until_then(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        mine = await owned_by(scene, "a")

        await patch_lease(scene, "a", {"spec": {"leaseDurationSeconds": 4000}})

        await eventually(lambda: _are_draining(scene, mine, wanted=True), within=WITHIN)
        for obj in mine:
            assert scene.owner_of(await scene.get(CONFIGMAPS, obj)) == scene.shard("a")
        await patch_lease(scene, "a", {"spec": {"leaseDurationSeconds": 3600}})
        await eventually(lambda: _are_draining(scene, mine, wanted=False), within=WITHIN)


async def test_a_shard_with_a_namesake_keeps_its_objects_and_the_ring_says_what_is_wrong(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        mine = await owned_by(scene, "a")

        await scene.lease(scene.shard("a"), TENANTS)

        duplicate_names = f"shards in two namespaces have the same name: {scene.shard('a')}"
        await eventually(lambda: _says(scene, duplicate_names), within=WITHIN)
        await until_new_objects_go_elsewhere(scene, "a")
        await assert_untouched(scene, mine)
        await scene.admin.delete(LEASES, scene.shard("a"), namespace=TENANTS)
        await eventually(lambda: _says(scene, "ring is ready"), within=WITHIN)


async def test_a_shard_that_restarts_while_its_objects_are_moved_keeps_the_rest(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, shards="a") as scene, service.user() as author:
        await _create_many(scene, author)
        record = Record(scene)
        async with record.kept(service.admin):
            await scene.leave("a")
            await scene.join("b")
            await eventually(lambda: record.has_taken(MANY // 20), within=WITHIN)
            back = await _acquire(service.admin, scene, "a")
            scene.shards.add(scene.shard("a"))
            await scene.until_admitting(CONFIGMAPS)
            await asyncio.sleep(WHILE_SECONDS)

    late = [revision for revision in record.taken if revision > back]
    assert len(record.taken) >= MANY // 20
    assert late == []


class Record:
    """The revisions at which objects were taken from the scene's shard a, without its leave."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._owners: dict[str, str] = {}
        self.taken: list[int] = []

    async def has_taken(self, count: int) -> bool:
        return len(self.taken) >= count

    @asynccontextmanager
    async def kept(self, kubeconfig: Path) -> AsyncIterator[None]:
        """Watch the objects while the body runs."""
        client = await connect(str(kubeconfig))
        store = KubeObjects(client).of(CONFIGMAPS, self._scene.owner)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._follow(store))
            await eventually(lambda: self._has_seen(MANY), within=WITHIN)
            yield
            task.cancel()
        await client.close()

    async def _has_seen(self, count: int) -> bool:
        return len(self._owners) >= count

    async def _follow(self, store: Watchable[PartialObject]) -> None:
        rng, clock = random.Random(1), SystemClock()
        events = follow(store, doing="record owners", clock=clock, rng=rng)
        async with aclosing(events):
            async for event in events:
                match event:
                    case Listed(items):
                        self._owners = {o.metadata.uid: self._scene.owner_of(o) for o in items}
                    case Changed(obj):
                        self._note(obj)
                    case _:
                        pass

    def _note(self, obj: PartialObject) -> None:
        uid, owner = obj.metadata.uid, self._scene.owner_of(obj)
        if self._owners.get(uid) == self._scene.shard("a") != owner:
            self.taken.append(int(obj.metadata.resource_version))
        self._owners[uid] = owner


async def _are_draining(scene: Scene, objects: list[PartialObject], *, wanted: bool) -> bool:
    now = [await scene.get(CONFIGMAPS, obj) for obj in objects]
    return all(scene.is_draining(obj) is wanted for obj in now)


async def _says(scene: Scene, message: str) -> bool:
    """Return whether the ring's conditions say this."""
    ring = await scene.admin.ring(scene.ring)
    return any(message in condition.message for condition in ring.status.conditions)


async def _create_many(scene: Scene, author: User) -> None:
    """Create many objects, as many at a time as do not overload the API server."""
    slots = asyncio.Semaphore(40)

    async def create(number: int) -> None:
        async with slots:
            await author.create(CONFIGMAPS, f"many-{number}", namespace=scene.namespace)

    async with asyncio.TaskGroup() as group:
        for number in range(MANY):
            group.create_task(create(number))


async def _acquire(kubeconfig: Path, scene: Scene, letter: str) -> int:
    """Acquire a Lease as soon as it is not held; return the revision of that."""
    client = await connect(str(kubeconfig))
    store, ref = leases(client, namespace=CONTROLLERS), ObjectRef(CONTROLLERS, scene.shard(letter))

    async def acquired() -> Lease:
        lease = await store.get(ref)
        assert not lease.spec.holder_identity, lease.spec
        spec: Json = {"holderIdentity": ref.name, "leaseDurationSeconds": 3600}
        version = lease.metadata.resource_version
        return await store.patch(ref, {"metadata": {"resourceVersion": version}, "spec": spec})

    try:
        lease = await eventually(acquired, within=2 * WITHIN)
        return int(lease.metadata.resource_version)
    finally:
        await client.close()
