"""Objects that come back from a backup in the order of Velero: children first, without owners.

Two shards of the SDK beside a running sharder; each Widget has a ConfigMap with a secret that is
made once, so that it must survive.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import ObjectRef, ShardName
from sharder.kube.client import connect
from sharder.kube.store import KubeStore
from sharder.sdk import LeaseTiming, Request, Settings, Shard
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WIDGETS, WITHIN

TIMING: Final = LeaseTiming(lease_duration=5, renew_deadline=3, retry_period=1)
PARENTS: Final = 4


class ConfigMap(PartialObject, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


async def reconcile(request: Request) -> None:
    """Give each Widget a ConfigMap of its name, with a password that is made once."""
    metadata: Json = {"name": request.ref.name}
    body: dict[str, Json] = {"kind": "ConfigMap", "metadata": metadata}
    child = await request.ensure(body, adopt=True)
    if not child.get("data"):
        await request.ensure({**body, "data": {"password": uuid.uuid4().hex}})


@asynccontextmanager
async def shard_of(service: Service, scene: Scene, letter: str) -> AsyncIterator[None]:
    name = scene.shard(letter)
    settings = Settings(
        name=name,
        namespace=CONTROLLERS,
        lease=TIMING,
        kubeconfig=str(service.admin),
        reacquire=True,
    )
    shard = Shard(ring=scene.ring, settings=settings)
    shard.reconciler("widgets.example.com", reconcile, owns=["configmaps"], cache=["configmaps"])

    async def holds() -> None:
        lease = await scene.admin.lease(name, CONTROLLERS)
        assert lease.spec.holder_identity == name

    async with asyncio.TaskGroup() as group:
        task = group.create_task(shard.serve())
        await eventually(holds, within=WITHIN)
        scene.shards.add(name)
        yield
        shard.stop()
        await asyncio.wait([task], timeout=WITHIN)
        task.cancel()


async def test_children_that_were_restored_first_are_adopted_with_their_data(
    service: Service,
) -> None:
    async with AsyncExitStack() as stack:
        scene = await stack.enter_async_context(
            service.scene(WIDGETS, controlled=[CONFIGMAPS], shards="")
        )
        client = await connect(str(service.admin))
        stack.push_async_callback(client.close)
        maps = KubeStore(client, ConfigMap, CONFIGMAPS)
        for letter in "ab":
            await stack.enter_async_context(shard_of(service, scene, letter))
        await scene.until_admitting(WIDGETS)
        names = scene.names_on_each(WIDGETS, PARENTS // 2)

        async def adopted(name: str) -> ConfigMap:
            child = await maps.get(ObjectRef(scene.namespace, name))
            parent = await scene.admin.get(WIDGETS, name, namespace=scene.namespace)
            assert child.data
            assert child.metadata.controller is not None
            assert child.metadata.controller.uid == parent.metadata.uid
            assert scene.owner_of(child) == scene.owner_of(parent) != ""
            return child

        for name in names:
            await scene.create(WIDGETS, name)
        saved = [await eventually(partial(adopted, name), within=WITHIN) for name in names]
        for name in names:
            await scene.admin.delete(WIDGETS, name, namespace=scene.namespace)

        # A backup keeps the labels: here each child has that of the other shard.
        owners = _swapped(scene, saved)

        async def restore(child: ConfigMap) -> None:
            ref = child.metadata.ref
            # A shard that has not seen yet that the parent is gone might create the child again.
            await scene.admin.delete(CONFIGMAPS, ref.name, namespace=ref.namespace)
            labels: Json = {scene.owner: owners[ref.name], "restored": "yes"}
            metadata: Json = {"name": ref.name, "labels": labels}
            await maps.create(ref.namespace, {"metadata": metadata, "data": child.data})

        for each in saved:
            await eventually(partial(restore, each), within=WITHIN)
        # Where a fence stands, a person removes the labels before the shards adopt.
        first = await scene.admin.get(CONFIGMAPS, names[0], namespace=scene.namespace)
        assert not scene.owner_of(await scene.admin.label(CONFIGMAPS, first, {scene.owner: None}))
        for name in names:
            await scene.create(WIDGETS, name)

        restored = [await eventually(partial(adopted, name), within=WITHIN) for name in names]
    assert [each.data for each in restored] == [each.data for each in saved]
    assert {each.metadata.label("restored") for each in restored} == {"yes"}


def _swapped(scene: Scene, children: list[ConfigMap]) -> dict[str, str]:
    """Return for each child the shard that does not have it."""
    other = dict(zip(sorted(scene.shards), sorted(scene.shards, reverse=True), strict=True))
    return {each.metadata.name: other[ShardName(scene.owner_of(each))] for each in children}
