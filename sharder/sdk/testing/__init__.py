"""Test a controller on a cluster in memory, and control time, drains and the Lease.

from sharder.sdk.testing import SETTINGS, ShardTest

async def test_a_secret_gets_its_checksums() -> None:
    shard = Shard(ring="checksum", settings=SETTINGS)
    shard.reconciler("secrets", reconcile, owns=["configmaps"])
    async with ShardTest(shard) as test:
        await test.create({"kind": "Secret", "metadata": {"name": "demo"}})
        child = await test.cluster.get("configmaps", "demo-checksums")
"""

from sharder.sdk.testing.fake_cluster import FakeCluster
from sharder.sdk.testing.resources import custom
from sharder.sdk.testing.shard_test import SETTINGS, ShardTest

__all__ = ["SETTINGS", "FakeCluster", "ShardTest", "custom"]
