"""Any user with Leases can call one a shard: no write fails, and no object goes there."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.api.ring import Condition
from sharder.core.names import SHARDER_IDENTITY, ShardName
from sharder.kube.typed_stores import LEASES
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, TENANTS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN, User

FORGED = 301
OBJECTS = 20


@asynccontextmanager
async def mallory(service: Service) -> AsyncIterator[User]:
    """Act as a user who may edit in the namespace `tenants`, and nothing else."""
    kubeconfig = await asyncio.to_thread(service.plane.kubeconfig, "mallory")
    async with service.user(kubeconfig) as user:
        yield user


@pytest.mark.parametrize(
    ("name", "spec", "says"),
    [
        ("x" * 80, {}, "name is not a valid label value"),
        (SHARDER_IDENTITY, {}, "reserved"),
        ("no-times", {"acquireTime": None, "renewTime": None}, "missing"),
        ("no-renewal", {"renewTime": None}, "missing"),
        ("no-duration", {"leaseDurationSeconds": None}, "missing"),
        ("slow", {"leaseDurationSeconds": 4000}, "must be 1 to 3600"),
        ("slowest", {"leaseDurationSeconds": 2**31 - 1}, "must be 1 to 3600"),
    ],
)
async def test_an_invalid_lease_gets_no_objects_and_is_not_written(
    service: Service, name: str, spec: dict[str, Json], says: str
) -> None:
    async with service.scene(CONFIGMAPS) as scene, mallory(service) as user:
        forged = await scene.lease(name, TENANTS, by=user, **spec)

        said = await until_reported(service, scene, name)
        await creates_go_to_real_shards(scene)

        assert says in said
        now = await scene.admin.lease(name, TENANTS)
        assert now.metadata.resource_version == forged.metadata.resource_version
        assert not [line for line in await service.metrics() if f'"{name}"' in line]
        await scene.admin.delete(LEASES, name, namespace=TENANTS)


@pytest.mark.parametrize("year", ["0001", "1970", "9999"])
async def test_a_shard_with_an_absurd_clock_is_given_up_when_it_stops_renewing(
    service: Service, year: str
) -> None:
    async with service.scene(CONFIGMAPS) as scene, mallory(service) as user:
        name = f"{scene.ring}-{year}"
        at = f"{year}-12-31T23:59:59.999999Z"
        await scene.lease(
            name, TENANTS, by=user, leaseDurationSeconds=1, acquireTime=at, renewTime=at
        )

        made = [await scene.create(CONFIGMAPS, f"config-{index}") for index in range(OBJECTS)]

        async def taken() -> Lease:
            lease = await scene.admin.lease(name, TENANTS)
            assert lease.spec.holder_identity == SHARDER_IDENTITY
            return lease

        await eventually(taken, within=WITHIN)
        for obj in made:
            await scene.until_owned(CONFIGMAPS, obj)
        await scene.admin.delete(LEASES, name, namespace=TENANTS)


async def test_forged_shards_in_a_foreign_namespace_get_nothing(service: Service) -> None:
    async with (
        service.scene(CONFIGMAPS, shardNamespaces=[CONTROLLERS]) as scene,
        mallory(service) as user,
    ):
        names = [f"{scene.ring}-forged-{index}" for index in range(FORGED)]
        async with asyncio.TaskGroup() as group:
            group.create_task(forge(scene, user, names))
            group.create_task(creates_go_to_real_shards(scene))

        said = await until_reported(service, scene, names[0])
        await creates_go_to_real_shards(scene, "later")

        assert f"spec.shardNamespaces allows only {CONTROLLERS}" in said
        assert not [line for line in await service.metrics() if f"{scene.ring}-forged" in line]
        for name in names:
            await scene.admin.delete(LEASES, name, namespace=TENANTS)


async def test_creates_succeed_while_hundreds_of_shards_join_at_once(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene, mallory(service) as user:
        names = [f"{scene.ring}-crowd-{index}" for index in range(FORGED)]
        async with asyncio.TaskGroup() as group:
            group.create_task(forge(scene, user, names))
            for index in range(OBJECTS):
                await scene.create(CONFIGMAPS, f"meanwhile-{index}")

        crowd = set(map(ShardName, names))
        scene.shards |= crowd
        await scene.until_admitting(CONFIGMAPS)
        await creates_go_to_real_shards(scene)

        scene.shards -= crowd
        for name in names:
            await scene.admin.delete(LEASES, name, namespace=TENANTS)


async def test_a_foreign_lease_of_a_shards_name_does_not_disturb_it(service: Service) -> None:
    async with (
        service.scene(CONFIGMAPS, shardNamespaces=[CONTROLLERS]) as scene,
        mallory(service) as user,
    ):
        name = scene.shard("a")
        await scene.lease(name, TENANTS, by=user)

        await until_reported(service, scene, name)
        await creates_go_to_real_shards(scene)

        assert (await ready(scene)).status == "True"
        await scene.admin.delete(LEASES, name, namespace=TENANTS)


async def test_two_shards_of_one_name_get_nothing_new_and_lose_nothing_until_one_is_gone(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene, mallory(service) as user:
        name = scene.shard("a")
        names = scene.names_on_each(CONFIGMAPS, 5)
        made = [await scene.create(CONFIGMAPS, each) for each in names]
        mine = [obj for obj in made if scene.owner_of(obj) == name]
        assert mine

        await scene.lease(name, TENANTS, by=user)
        complaint = await until_ready(scene, "False")
        scene.shards.discard(name)
        await creates_go_to_real_shards(scene, "meanwhile")
        kept = {scene.owner_of(await scene.get(CONFIGMAPS, obj)) for obj in mine}
        await scene.admin.delete(LEASES, name, namespace=TENANTS)
        scene.shards.add(name)
        await until_ready(scene, "True")
        await creates_go_to_real_shards(scene, "after")

        assert name in complaint.message
        assert kept == {name}


async def forge(scene: Scene, user: User, names: list[str]) -> None:
    """Create Leases as any shard of the ring would, some at a time."""
    room = asyncio.Semaphore(10)

    async def one(name: str) -> None:
        async with room:
            await scene.lease(name, TENANTS, by=user, leaseDurationSeconds=3600)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))


async def creates_go_to_real_shards(scene: Scene, prefix: str = "config") -> None:
    """Create objects and look where they are."""
    made = [await scene.create(CONFIGMAPS, f"{prefix}-{index}") for index in range(OBJECTS)]

    assert [scene.owner_of(obj) for obj in made] == [scene.wanted(obj) for obj in made]


async def until_reported(service: Service, scene: Scene, name: str) -> str:
    """Wait for the Event that says what is wrong with a Lease; return what it says."""

    async def reported() -> str:
        text = await asyncio.to_thread(
            service.plane.kubectl, "get", "events", "-n", TENANTS, "-o", "json",
            "--field-selector", f"involvedObject.name={name},reason=InvalidLease",
        )  # fmt: skip
        return str(json.loads(text)["items"][-1]["message"])

    return await eventually(reported, within=WITHIN)


async def ready(scene: Scene) -> Condition:
    """Return the ring's condition Ready."""
    ring = await scene.admin.ring(scene.ring)
    return next(each for each in ring.status.conditions if each.type == "Ready")


async def until_ready(scene: Scene, status: str) -> Condition:
    """Wait until the ring is ready, or is not."""

    async def is_so() -> Condition:
        condition = await ready(scene)
        assert condition.status == status, condition
        return condition

    return await eventually(is_so, within=WITHIN)
