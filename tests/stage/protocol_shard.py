"""A shard that was written from the protocol alone, as one on client-go works."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.errors import ApiError, Conflict, Expired, NotFound
from sharder.core.names import RING_LABEL, ObjectRef, drain_label, owner_label
from sharder.kube.client import MERGE_PATCH, Call
from sharder.sdk.testing.requests import Client as User
from tests.stage.actors import LEASE, POD_NAME, RING, SHARD_ACCOUNT, Actor

if TYPE_CHECKING:
    from tests.stage.stage import Stage

_SITES: Final = "/apis/example.com/v1/websites"
_SITE: Final = "/apis/example.com/v1/namespaces/{}/websites/{}"
_PAGES: Final = "/api/v1/namespaces/{}/configmaps"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class ListAnswer(msgspec.Struct, frozen=True):
    """A list, as far as a client of the protocol reads it."""

    metadata: ObjectMeta
    items: list[PartialObject]


class WatchLine(msgspec.Struct, frozen=True):
    """A line of a watch, likewise."""

    type: str
    object: PartialObject


class ProtocolShard(Actor):
    """Holds its Lease as client-go does, and works on what its watch shows.

    As client-go it tries to renew a Lease that another client took until its renew deadline, and
    works on meanwhile; so only the fence stops its writes after a long pause.
    """

    def __init__(self, stage: "Stage", name: str, *, server: int = 0) -> None:
        user = User(username=SHARD_ACCOUNT, extra={POD_NAME: (name,)})
        super().__init__(stage, name, user, server=server)
        self.link.unacknowledged_seconds = inf
        self._known: dict[ObjectRef, PartialObject] = {}
        self._working: dict[ObjectRef, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self._seen = LeaseSpec(), 0.0
        """What another holder has in the Lease, and since when."""

    @override
    def stop(self) -> None:
        """Stop cleanly."""
        self._stop.set()

    @override
    async def main(self) -> None:
        """Take the Lease, work, and release the Lease after the work has ended."""
        while not await self._renewed():  # noqa: ASYNC110 - a Lease is polled
            await asyncio.sleep(LEASE.retry_period)
        async with asyncio.TaskGroup() as group:
            ends = {group.create_task(self._keep()), group.create_task(self._stop.wait())}
            work = group.create_task(self._follow())
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (work, *ends):
                task.cancel()
        if self._stop.is_set():
            await self._patch_lease({"holderIdentity": ""})

    async def _keep(self) -> None:
        """Renew until the deadline has passed without a renewal."""
        deadline = self.clock.monotonic() + LEASE.renew_deadline
        while self.clock.monotonic() < deadline:
            await asyncio.sleep(LEASE.retry_period)
            sent = self.clock.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline - sent):
                    if await self._renewed():
                        deadline = sent + LEASE.renew_deadline

    async def _renewed(self) -> bool:
        """Take or renew the Lease; return whether it is ours."""
        now = format_time(self.clock.now())
        spec: dict[str, Json] = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": LEASE.lease_duration,
            "renewTime": now,
        }
        try:
            lease = await self._lease()
            if lease is None:
                metadata: Json = {"name": self.name, "labels": {RING_LABEL: RING}}
                body: Json = {"metadata": metadata, "spec": {**spec, "acquireTime": now}}
                await self.client.request("POST", _LEASES, body=body)
                return True
            if lease.spec.holder_identity not in {self.name, "", None} and not self._is_over(
                lease
            ):
                return False
            if lease.spec.holder_identity != self.name:
                spec["acquireTime"] = now
            return await self._patch_lease(spec, lease.metadata.resource_version)
        except ApiError:
            return False

    def _is_over(self, lease: Lease) -> bool:
        """Return whether another holder has not renewed for its duration, on our clock."""
        now = self.clock.monotonic()
        if self._seen[0] != lease.spec:
            self._seen = lease.spec, now
        waited = now - self._seen[1]
        return waited > (lease.spec.lease_duration_seconds or 0)

    async def _patch_lease(self, spec: Json, version: str = "") -> bool:
        metadata: Json = {"resourceVersion": version} if version else {}
        body: Json = {"metadata": metadata, "spec": spec}
        try:
            path = f"{_LEASES}/{self.name}"
            await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError:
            return False
        return True

    async def _lease(self) -> Lease | None:
        try:
            answer = await self.client.request("GET", f"{_LEASES}/{self.name}")
        except NotFound:
            return None
        return msgspec.json.decode(answer, type=Lease)

    async def _follow(self) -> None:
        """List and watch the own objects for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                with suppress(ApiError):
                    async for obj in self._objects():
                        self._look_at(group, obj)
                await asyncio.sleep(0.5)

    async def _objects(self) -> AsyncIterator[PartialObject]:
        query = {"labelSelector": f"{owner_label(RING)}={self.name}"}
        answer = await self.client.request("GET", _SITES, query=query)
        listed = msgspec.json.decode(answer, type=ListAnswer)
        self._known = {}
        for obj in listed.items:
            yield obj
        version = listed.metadata.resource_version
        while True:
            watch = query | {"watch": "true", "resourceVersion": version}
            async with self.client.lines(Call(method="GET", path=_SITES, query=watch)) as lines:
                async for line in lines:
                    event = msgspec.json.decode(line, type=WatchLine)
                    version = event.object.metadata.resource_version
                    if event.type == "DELETED":
                        self._forget(event.object.metadata.ref)
                    elif event.type != "BOOKMARK":
                        yield event.object

    def _forget(self, ref: ObjectRef) -> None:
        self._known.pop(ref, None)
        task = self._working.get(ref)
        if task is not None:
            task.cancel()

    def _look_at(self, group: asyncio.TaskGroup, obj: PartialObject) -> None:
        ref = obj.metadata.ref
        self._known[ref] = obj
        if ref not in self._working:
            self._working[ref] = group.create_task(self._work(ref))

    async def _work(self, ref: ObjectRef) -> None:
        """Work on an object until it is as its latest version wants it."""
        try:
            while (obj := self._known.get(ref)) is not None:
                try:
                    if obj.metadata.has_label(drain_label(RING)):
                        await self._acknowledge(obj)
                    elif obj.metadata.label(owner_label(RING)) == self.name:
                        with self.stage.history.working(self.name, ref):
                            await self._reconcile(obj)
                except ApiError:
                    await asyncio.sleep(1.0)
                    continue
                if self._known.get(ref) is obj:
                    return
        finally:
            self._working.pop(ref, None)

    async def _reconcile(self, obj: PartialObject) -> None:
        """Create the object's page, if the API server has none for it."""
        namespace = obj.metadata.namespace
        answer = await self.client.request("GET", _PAGES.format(namespace))
        pages = msgspec.json.decode(answer, type=ListAnswer).items
        await asyncio.sleep(self.rng.uniform(0, 0.5))
        if any(
            p.metadata.controller and p.metadata.controller.uid == obj.metadata.uid for p in pages
        ):
            return
        reference: Json = {
            "apiVersion": "example.com/v1",
            "kind": "Website",
            "name": obj.metadata.name,
            "uid": obj.metadata.uid,
            "controller": True,
        }
        metadata: Json = {
            "name": f"{obj.metadata.name}-{self.rng.getrandbits(32):08x}",
            "labels": {owner_label(RING): self.name},
            "ownerReferences": [reference],
        }
        await self.client.request("POST", _PAGES.format(namespace), body={"metadata": metadata})

    async def _acknowledge(self, obj: PartialObject) -> None:
        labels: Json = {owner_label(RING): None, drain_label(RING): None}
        version = obj.metadata.resource_version
        body: Json = {"metadata": {"labels": labels, "resourceVersion": version}}
        path = _SITE.format(obj.metadata.namespace, obj.metadata.name)
        with suppress(Conflict, NotFound, Expired):
            await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
