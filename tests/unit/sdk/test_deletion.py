"""What keeps an object, and what its deletion leaves behind, in the testing kit."""

from collections.abc import Mapping

import pytest

from sharder.core.api.meta import Json
from sharder.sdk import Request, Requeue, Shard
from sharder.sdk.testing import SETTINGS, ShardTest

FINALIZER = "example.com/mirror"
SECRET = {"kind": "Secret", "metadata": {"name": "demo"}}


def child_of(request: Request) -> Mapping[str, Json]:
    return {"kind": "ConfigMap", "metadata": {"name": f"{request.ref.name}-mirror"}}


async def mirror(request: Request) -> None:
    await request.ensure(child_of(request))


async def drop(request: Request) -> None:
    if not await request.delete(child_of(request)):
        raise Requeue(after=1)


def make_shard() -> Shard:
    shard = Shard(ring="mirror", settings=SETTINGS)
    shard.reconciler("secrets", mirror, owns=["configmaps"], on_delete=drop, finalizer=FINALIZER)
    return shard


async def test_a_foreign_object_with_the_name_of_the_child_keeps_no_parent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ShardTest(make_shard()) as test:
        foreign = {"kind": "ConfigMap", "metadata": {"name": "demo-mirror"}, "data": {"a": "1"}}
        before = await test.cluster.create(foreign)
        await test.create(SECRET)

        await test.cluster.delete("secrets", "demo")

        assert await test.cluster.list("secrets") == []
        assert await test.cluster.list("configmaps") == [before]
    assert {record.getMessage() for record in caplog.records if record.levelname == "WARNING"} == {
        "reconcile failed: default/demo: ConfigMap default/demo-mirror exists and is not "
        "controlled by Secret default/demo: delete or rename it"
    }
