"""The finalizer of a shard, which keeps a deleted object until `on_delete` has returned."""

import pytest

from sharder.sdk import Request, Shard
from sharder.sdk.testing import SETTINGS, ShardTest
from sharder.shard.objects import OwnObject

FINALIZER, THEIRS = "example.com/mirror", "example.org/theirs"
SECRET = {"kind": "Secret", "metadata": {"name": "demo"}}


async def test_the_finalizer_of_a_kept_object_cannot_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = 0

    async def reconcile(request: Request) -> None:
        nonlocal runs
        runs += 1
        await request.remove_finalizer(THEIRS)
        await request.remove_finalizer(FINALIZER)

    async def drop(request: Request) -> None:
        await request.remove_finalizer(FINALIZER)

    shard = Shard(ring="mirror", settings=SETTINGS)
    shard.reconciler("secrets", reconcile, on_delete=drop, finalizer=FINALIZER)
    async with ShardTest(shard) as test:
        await test.create(SECRET)
        assert runs < 5
        assert f"the finalizer {FINALIZER} would be added to default/demo again" in caplog.text

        await test.cluster.delete("secrets", "demo")
        assert await test.cluster.list("secrets") == []


async def test_a_finalizer_is_retired_by_a_reconciler_without_on_delete() -> None:
    async def retire(request: Request) -> None:
        await request.remove_finalizer(FINALIZER)

    shard = Shard(ring="mirror", settings=SETTINGS)
    shard.reconciler("secrets", retire)
    async with ShardTest(shard) as test:
        await test.create({**SECRET, "metadata": {"name": "demo", "finalizers": [FINALIZER]}})

        assert (await test.cluster.get("secrets", "demo", OwnObject)).metadata.finalizers == ()
