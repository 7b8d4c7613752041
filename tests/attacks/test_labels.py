"""A tenant forges and strips labels while the API server does not call the webhook.

While it does, they are what they were: tests/integration/test_webhook_calls.py.
"""

import itertools
from typing import Final

import pytest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import ShardName
from tests.attacks.conftest import Timed
from tests.attacks.tenant import tenant, without_webhook
from tests.support.eventually import eventually
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN, User

HEAL_SECONDS: Final = 3 * WITHIN
"""Enough to give up an unknown shard, and for the resync after that."""


def another_shard(scene: Scene, name: str) -> ShardName:
    """Return a shard that the ring does not give the object to."""
    metadata = ObjectMeta(name=name, namespace=scene.namespace)
    wanted = scene.wanted(PartialObject(api_version="v1", kind="ConfigMap", metadata=metadata))
    return next(shard for shard in sorted(scene.shards) if shard != wanted)


async def until_moved(scene: Scene, obj: PartialObject) -> None:
    """Wait until the ring's choice owns the object; its shard acknowledges drains."""

    async def moved() -> bool:
        now = await scene.get(CONFIGMAPS, obj)
        if scene.is_draining(now):
            await scene.acknowledge(CONFIGMAPS, now)
        return scene.owner_of(now) == scene.wanted(now) and not scene.is_draining(now)

    await eventually(moved, within=HEAL_SECONDS)


@pytest.mark.parametrize("forged", ["of another shard", "of no shard"])
async def test_an_object_that_is_created_with_a_forged_owner_moves_to_its_own(
    service: Service, healed: Timed, forged: str
) -> None:
    async with service.scene(CONFIGMAPS) as scene, tenant(service, scene.namespace) as user:
        numbers = itertools.count()

        async def create() -> PartialObject:
            name = f"forged-{next(numbers)}"
            owner = another_shard(scene, name) if forged == "of another shard" else "no-such-shard"
            labels = {scene.owner: owner}
            obj = await user.create(CONFIGMAPS, name, namespace=scene.namespace, labels={**labels})
            assert scene.owner_of(obj) == owner
            return obj

        obj = await without_webhook(scene, create)
        with healed(f"A9, an object is created with the label {forged}, no webhook"):
            await until_moved(scene, obj)


async def test_an_object_whose_owner_is_forged_moves_back(service: Service, healed: Timed) -> None:
    async with service.scene(CONFIGMAPS) as scene, tenant(service, scene.namespace) as user:
        obj = await scene.create(CONFIGMAPS, "config")
        owner = another_shard(scene, "config")

        async def forge() -> None:
            after = await user.label(CONFIGMAPS, obj, {scene.owner: owner})
            assert scene.owner_of(after) == owner

        await without_webhook(scene, forge)
        with healed("A9, the owner of an object is forged, no webhook"):
            await until_moved(scene, obj)


async def test_an_object_whose_labels_are_stripped_gets_its_owner_back(
    service: Service, healed: Timed
) -> None:
    async with service.scene(CONFIGMAPS) as scene, tenant(service, scene.namespace) as user:
        obj = await scene.create(CONFIGMAPS, "config")

        async def strip() -> None:
            assert scene.owner_of(await user.replace(CONFIGMAPS, obj)) == ""

        await without_webhook(scene, strip)
        with healed("A10, a PUT strips the owner, no webhook"):
            await scene.until_owned(CONFIGMAPS, obj)


async def test_a_forged_drain_is_withdrawn(service: Service, healed: Timed) -> None:
    async with service.scene(CONFIGMAPS) as scene, tenant(service, scene.namespace) as user:
        obj = await scene.create(CONFIGMAPS, "config")

        await without_webhook(scene, lambda: forge_drain(scene, user, obj))
        with healed("A11, a drain is forged, no webhook"):
            await eventually(lambda: is_as_before(scene, obj), within=WITHIN)


async def forge_drain(scene: Scene, user: User, obj: PartialObject) -> None:
    assert scene.is_draining(await user.label(CONFIGMAPS, obj, {scene.drain: "true"}))


async def is_as_before(scene: Scene, obj: PartialObject) -> bool:
    return (await scene.get(CONFIGMAPS, obj)).metadata.labels == obj.metadata.labels
