"""A thief has the sharder's token, which the policy of docs/security.md makes worth less."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.playground import SYSTEM
from sharder.core.api.meta import Json
from sharder.core.errors import Rejected
from sharder.core.names import SHARDER_IDENTITY, ObjectRef
from sharder.kube.typed_stores import LEASES
from tests.support.documents import blocks
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN, User

SECURITY = Path("docs/security.md")
LEADER = ObjectRef("kube-system", "kube-controller-manager")
ROBBED: Json = {"spec": {"holderIdentity": "thief"}}


@pytest.fixture
async def thief(service: Service) -> AsyncIterator[User]:
    async with service.user(service.playground.kubeconfig_of("sharder")) as user:
        yield user


def policy() -> str:
    return next(
        block.text
        for block in blocks("yaml")
        if block.document == SECURITY and "name: sharder-leases" in block.text
    )


async def rob(thief: User) -> None:
    await thief.patch(LEASES, LEADER.name, ROBBED, namespace=LEADER.namespace)


async def is_refused(thief: User) -> bool:
    try:
        await rob(thief)
    except Rejected as error:
        return "writes its own Lease and those of shards alone" in str(error)
    return False


async def is_taken(admin: User, shard: str) -> bool:
    lease = await admin.lease(shard, CONTROLLERS)
    return lease.spec.holder_identity == SHARDER_IDENTITY


async def test_the_documented_policy_keeps_it_from_leases_of_others(
    service: Service, thief: User
) -> None:
    create = ("create", "-f", "-")
    lease = (
        '{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": '
        f'{{"name": "{LEADER.name}", "namespace": "{LEADER.namespace}"}}}}'
    )
    await asyncio.to_thread(service.plane.kubectl, *create, stdin=lease)
    await rob(thief)

    await asyncio.to_thread(service.plane.apply, policy())

    try:
        await eventually(lambda: is_refused(thief), within=2 * WITHIN)
        with pytest.raises(Rejected, match="those of shards alone"):
            await thief.create(LEASES, "another", namespace=SYSTEM)
        with pytest.raises(Rejected, match="those of shards alone"):
            await thief.delete(LEASES, LEADER.name, namespace=LEADER.namespace)
        # The sharder still does with its own Lease and those of shards what it has to.
        await thief.patch(
            LEASES, "sharder", {"metadata": {"labels": {"a": "b"}}}, namespace=SYSTEM
        )
        async with service.scene(CONFIGMAPS, shards="ab") as scene:
            await scene.lease(scene.shard("z"), CONTROLLERS, leaseDurationSeconds=1)
            await eventually(lambda: is_taken(scene.admin, scene.shard("z")), within=WITHIN)
            await thief.delete(LEASES, scene.shard("z"), namespace=CONTROLLERS)
    finally:
        await asyncio.to_thread(
            service.plane.kubectl, "delete", "-f", "-", "--ignore-not-found", stdin=policy()
        )
