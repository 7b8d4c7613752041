"""What an author can do to a shard in a test."""

import asyncio
import base64
import hashlib
from contextlib import suppress

import msgspec
import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError, Conflict, InvalidObject
from sharder.sdk import Request, Shard
from sharder.sdk.reconciler import Reconcile
from sharder.sdk.testing import SETTINGS, FakeCluster, ShardTest

SECRET = {
    "kind": "Secret",
    "apiVersion": "v1",
    "metadata": {"name": "demo"},
    "data": {"k": base64.b64encode(b"v").decode()},
}


async def checksum(request: Request) -> None:
    """The controller of the example."""
    if request.metadata.deletion_timestamp:
        return
    secret = await request.get()
    data = secret.get("data")
    assert isinstance(data, dict)
    sums = {key: hashlib.sha256(str(value).encode()).hexdigest() for key, value in data.items()}
    name = f"{request.ref.name}-sums"
    child: dict[str, Json] = {"kind": "ConfigMap", "metadata": {"name": name}, "data": sums}
    await request.ensure(child, replace=["data"])


def shard_of(reconcile: Reconcile = checksum) -> Shard:
    shard = Shard(ring="checksum", settings=SETTINGS)
    shard.reconciler("secrets", reconcile, owns=["configmaps"])
    return shard


async def test_a_child_that_is_deleted_is_made_again() -> None:
    async with ShardTest(shard_of()) as test:
        await test.create(SECRET)
        await test.cluster.delete("configmaps", "default/demo-sums")

        assert await test.cluster.get("configmaps", "demo-sums")


async def test_a_call_waits_for_a_function_that_writes_to_the_cluster_itself() -> None:
    cluster = FakeCluster()

    async def mirror(request: Request) -> None:
        for number in range(20):
            name = f"{request.ref.name}-{number}"
            metadata = {"name": name, "namespace": "mirror"}
            with suppress(Conflict):
                await cluster.create({"kind": "ConfigMap", "metadata": metadata})

    async def drop(request: Request) -> None:
        for number in range(20):
            await cluster.delete("configmaps", f"mirror/{request.ref.name}-{number}")

    shard = Shard(ring="checksum", settings=SETTINGS)
    shard.reconciler("secrets", mirror, on_delete=drop, finalizer="example.com/mirror")
    async with ShardTest(shard, cluster) as test:
        await test.create(SECRET)
        created = len(await cluster.list("configmaps"))
        await cluster.delete("secrets", "demo")

        assert (created, await cluster.list("configmaps")) == (20, [])
        assert await cluster.list("secrets") == []


class Sums(msgspec.Struct):
    data: dict[str, str]


class Counts(msgspec.Struct):
    data: dict[str, int]


async def test_an_object_is_read_in_a_shape() -> None:
    async with ShardTest(shard_of()) as test:
        await test.create(SECRET)

        child = await test.cluster.get("configmaps", "demo-sums", Sums)

        assert child.data == {"k": hashlib.sha256(b"dg==").hexdigest()}
        with pytest.raises(InvalidObject, match="data"):
            await test.cluster.get("configmaps", "demo-sums", Counts)


async def test_time_passes_when_the_test_says_so() -> None:
    times = list[float]()

    async def again(request: Request) -> float:
        times.append(cluster.clock.monotonic())
        return 30.0

    cluster = FakeCluster()
    async with ShardTest(shard_of(again), cluster) as test:
        await test.create(SECRET)
        await cluster.advance(60)

    assert times == [0, 30, 60]


async def writes_each_time(request: Request) -> None:
    now = (await request.get())["metadata"]
    assert isinstance(now, dict)
    await request.patch({"metadata": {"annotations": {"seen": now["resourceVersion"]}}})


async def returns_at_once(_: Request) -> float:
    return 0.0


@pytest.mark.slow
@pytest.mark.parametrize("reconcile", [writes_each_time, returns_at_once])
async def test_a_shard_that_is_never_done_fails_the_test(reconcile: Reconcile) -> None:
    message = r"still busy after [\d,]+ turns of the event loop; does a reconcile write"
    cluster = FakeCluster()

    async with ShardTest(shard_of(reconcile), cluster) as test:
        with pytest.raises(AssertionError, match=message):
            await test.create(SECRET)
    with pytest.raises(AssertionError, match=message):
        await ShardTest(shard_of(reconcile), cluster).__aenter__()
    assert len(asyncio.all_tasks()) == 1


async def test_an_unknown_resource_is_explained() -> None:
    with pytest.raises(ConfigError, match=r'custom\("gadgets.example.com", kind=…\)'):
        await FakeCluster().get("gadgets.example.com", "a")
