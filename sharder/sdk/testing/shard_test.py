"""A shard on a cluster in memory, and a test that plays the sharder."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import SharderError
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import SHARDER_IDENTITY, GroupResource, ObjectRef, drain_label, owner_label
from sharder.sdk.shard import Shard
from sharder.sdk.testing.fake_clock import FixedRng
from sharder.sdk.testing.fake_cluster import FakeCluster
from sharder.shard.objects import Document
from sharder.shard.settings import Settings

SETTINGS: Final = Settings(name="shard-a", namespace="default", lease=LeaseTiming())
"""Settings of a shard that need no environment."""


class ShardTest:
    """Runs a shard on a cluster in memory while the `async with` block lasts.

        async with ShardTest(shard) as test:
            await test.create({"kind": "Secret", "metadata": {"name": "demo"}})
            child = await test.cluster.get("configmaps", "demo-checksums")

    The block plays the sharder and all other clients. Each call returns when the shard has nothing
    left to do, so a test never sleeps.
    """

    __test__ = False  # pytest must not collect this class

    def __init__(self, shard: Shard, cluster: FakeCluster | None = None) -> None:
        """Pass the same `cluster` to several tests to run several shards."""
        self.shard = shard
        self.cluster: FakeCluster = cluster or FakeCluster()
        """Acts as another client, lets time pass, and makes faults."""
        settings = shard.settings
        self.name: str = settings.name
        """The shard's name, which is the owner label of its objects."""
        self._lease = ObjectRef(settings.namespace, settings.name)
        self._owner, self._drain = owner_label(shard.ring), drain_label(shard.ring)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.cluster.rings.setdefault(self.shard.ring, self._ring())
        cluster = self.cluster
        running = self.shard.serve_on(cluster, clock=cluster.clock, rng=FixedRng())
        self._task = asyncio.create_task(running, name="shard")  # noqa: TID251 - ends with the block
        try:
            await cluster.advance(0)
        except BaseException:
            await self._cancel()
            raise
        return self

    async def __aexit__(
        self,
        type_: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Stop the shard at once; raise its error if it failed before and the block did not."""
        if self._task is None:
            return
        await self._cancel()
        if type_ is None and not self._task.cancelled() and self._task.exception() is not None:
            self._task.result()

    async def create(self, body: Mapping[str, object], *, owner: str | None = None) -> Document:
        """Create an object of this shard, or of the shard `owner`; empty: unassigned."""
        metadata = body.get("metadata")
        fields = metadata if isinstance(metadata, Mapping) else {}
        labels = fields.get("labels")
        shard = self.name if owner is None else owner
        owned = {**(labels if isinstance(labels, Mapping) else {})} | (
            {self._owner: shard} if shard else {}
        )
        return await self.cluster.create({**body, "metadata": {**fields, "labels": owned}})

    async def owner(self, resource: str, name: str) -> str:
        """Return the shard that owns the object, empty if none does."""
        return (await self.cluster.metadata(resource, name)).label(self._owner)

    async def assign(self, resource: str, name: str, shard: str | None = None) -> None:
        """Assign the object to this shard, or to the shard `shard`, without a drain."""
        await self._label(resource, name, {self._owner: shard or self.name, self._drain: None})

    async def drain(self, resource: str, name: str) -> None:
        """Ask the owner to release the object; `owner` is empty when it has acknowledged."""
        await self._label(resource, name, {self._drain: "true"})

    async def lose_lease(self) -> None:
        """Take over the Lease, as the sharder does with a dead shard, and let the shard notice."""
        body: Json = {"spec": {"holderIdentity": SHARDER_IDENTITY}}
        await self.cluster.lease_store.patch(self._lease, body)
        await self.cluster.advance(self.shard.settings.lease.retry_period)

    async def ended(self) -> SharderError | None:
        """Return how the shard has ended: with an error, or cleanly (None).

        Raises:
            TimeoutError: it is still running.
        """
        if self._task is None or not self._task.done():
            raise TimeoutError(f"shard {self.name} is still running")
        task, self._task = self._task, None
        error = task.exception()
        if error is not None and not isinstance(error, SharderError):
            raise error
        return error

    async def stop(self) -> None:
        """Request a clean stop, as SIGTERM does."""
        self.shard.stop()
        await self.cluster.advance(0)

    async def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _label(self, resource: str, name: str, labels: Mapping[str, str | None]) -> None:
        await self.cluster.patch(resource, name, {"metadata": {"labels": labels}})

    def _ring(self) -> ControllerRing:
        resources: list[Json] = [
            {**_named(main), "controlledResources": [_named(child) for child in children]}
            for main, children in self.shard.handled.items()
        ]
        body: Json = {"metadata": {"name": self.shard.ring}, "spec": {"resources": resources}}
        return msgspec.convert(body, ControllerRing)


def _named(resource: GroupResource) -> dict[str, Json]:
    return {"group": resource.group, "resource": resource.resource}
