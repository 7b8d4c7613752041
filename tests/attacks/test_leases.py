"""A tenant makes Leases that claim to be shards: those of a ring's own namespaces alone count."""

import asyncio
import json

from sharder.core.names import ShardName
from sharder.kube.typed_stores import LEASES
from tests.attacks.tenant import tenant
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, TENANTS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

OBJECTS = 20


async def test_leases_of_another_namespace_get_nothing_and_no_series(service: Service) -> None:
    async with (
        service.scene(CONFIGMAPS, shardNamespaces=[CONTROLLERS]) as scene,
        tenant(service, TENANTS) as user,
    ):
        forged = [f"{scene.ring}-forged", scene.shard("a")]
        for name in forged:
            await scene.lease(name, TENANTS, by=user, leaseDurationSeconds=3600)
            said = await until_reported(service, name)
            assert f"spec.shardNamespaces allows only {CONTROLLERS}" in said

        await creates_go_to(scene, "config")

        assert not [line for line in await service.metrics() if forged[0] in line]
        for name in forged:
            await scene.admin.delete(LEASES, name, namespace=TENANTS)


async def test_without_the_limit_they_get_their_share(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene, tenant(service, TENANTS) as user:
        forged = ShardName(f"{scene.ring}-forged")
        await scene.lease(forged, TENANTS, by=user, leaseDurationSeconds=3600)
        scene.shards.add(forged)
        await scene.until_admitting(CONFIGMAPS)

        await creates_go_to(scene, "config")

        scene.shards.remove(forged)
        await scene.admin.delete(LEASES, forged, namespace=TENANTS)


async def test_without_the_limit_a_namesake_keeps_new_objects_from_a_shard(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene, tenant(service, TENANTS) as user:
        name = scene.shard("a")
        made = [await scene.create(CONFIGMAPS, n) for n in scene.names_on_each(CONFIGMAPS, 3)]

        await scene.lease(name, TENANTS, by=user)
        complaint = await scene.until_ready("False")
        scene.shards.discard(name)
        await creates_go_to(scene, "meanwhile")

        assert name in complaint.message
        assert name in {scene.owner_of(await scene.get(CONFIGMAPS, obj)) for obj in made}
        await scene.admin.delete(LEASES, name, namespace=TENANTS)


async def creates_go_to(scene: Scene, prefix: str) -> None:
    """Create objects; each has the owner that it has among the scene's shards."""
    made = [await scene.create(CONFIGMAPS, f"{prefix}-{index}") for index in range(OBJECTS)]

    assert [scene.owner_of(obj) for obj in made] == [scene.wanted(obj) for obj in made]


async def until_reported(service: Service, name: str) -> str:
    """Wait for the Event that says what is wrong with a Lease; return what it says."""

    async def reported() -> str:
        text = await asyncio.to_thread(
            service.plane.kubectl, "get", "events", "-n", TENANTS, "-o", "json",
            "--field-selector", f"involvedObject.name={name},reason=InvalidLease",
        )  # fmt: skip
        return str(json.loads(text)["items"][-1]["message"])

    return await eventually(reported, within=WITHIN)
