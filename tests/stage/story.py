"""A short play with a plot: what users, admins and faults do, and what has to come of it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final, TypeAlias

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.names import GroupResource, ObjectRef, drain_label, owner_label, pin_label
from sharder.kube.typed_stores import LEASES, MUTATING
from tests.history.judging import judge
from tests.history.traces import Happening
from tests.stage.actors import LEASE, RING, ReplicaActor
from tests.stage.history import STAMP
from tests.stage.stage import (
    CONFIGMAPS,
    LEASES_PATH,
    RINGS_PATH,
    WEBSITES,
    Stage,
    eventually,
    held_lease,
)

OWNER, DRAIN, PIN = owner_label(RING), drain_label(RING), pin_label(RING)
SITES: Final = "/apis/example.com/v1/namespaces/{}/websites"
MAIN: Final[Mapping[str, Json]] = {"group": "example.com", "resource": "websites"}
LONGEST: Final = 600.0
"""Seconds of the longest story."""
LEADING: Final = {**MAIN, "controlledResources": [{"group": "", "resource": "configmaps"}]}
Plot: TypeAlias = "Callable[[Story], Coroutine[Any, Any, None]]"


class Story:
    """The stage, with words for what stories are about."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.shards = self.stage.shards
        self.skew = 0.0
        """By how many seconds the clocks of shards that join are off."""
        self.is_judged = True
        """Whether the judges of random plays judge this one too."""
        self._writes = 0

    def play(self, plot: Plot) -> list[str]:
        """Play a plot; return what was wrong: what the plot says, or what a judge does."""
        wrong = list[str]()

        async def within() -> None:
            async with asyncio.timeout(LONGEST):
                await plot(self)

        try:
            self.stage.play(within())
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{error}" or "an assertion of the plot")
        broken = judge(self.stage.history.trace()).broken() if self.is_judged else {}
        wrong += [f"{len(them)} {what}: {them[0]}" for what, them in broken.items() if them]
        wrong += [f"{name} does not end" for name in self.stage.loop.endless]
        for actor in self.stage.actors:
            wrong += actor.process.errors
        return wrong

    async def begin(
        self, shards: str = "", *, resources: Json = (LEADING,), sites: int = 0, **spec: Json
    ) -> ReplicaActor:
        """Set up the ring, one replica that leads, shards that hold their Leases, and objects."""
        default: dict[str, Json] = {"resources": resources, "shardNamespaces": ["default"]}
        await self.stage.set_up(default | spec)
        replica = self.stage.replica("r0")
        await self.join(shards)
        await self.until(lambda: replica.leads and bool(self.stage.storage.of(MUTATING.id)))
        await self.create(sites)
        return replica

    async def join(self, shards: str) -> None:
        """Start shards, and wait until they hold their Leases."""
        for name in shards.split():
            self.stage.shard(name).clock.skew = timedelta(seconds=self.skew)
        await self.until(lambda: all(self.holder(name) == name for name in shards.split()))
        await asyncio.sleep(0.3)

    async def create(self, count: int, namespace: str = "default", **metadata: Json) -> list[str]:
        """Create objects; return their names."""
        names = [f"site-{self._writes + number + 1}" for number in range(count)]
        for name in names:
            await self.put("POST", SITES.format(namespace), {"name": name, **metadata})
        return names

    async def edit(self, name: str, namespace: str = "default", **metadata: Json) -> None:
        """Change an object's metadata and specification as a user."""
        await self.put("PATCH", f"{SITES.format(namespace)}/{name}", metadata)

    async def put(self, method: str, path: str, metadata: Mapping[str, Json]) -> None:
        """Write an object as a user, with the mark of this write.

        Raises:
            AssertionError: the request was refused.
        """
        self._writes += 1
        annotations: Any = metadata.get("annotations") or {}
        marked = {**metadata, "annotations": {**annotations, STAMP: str(self._writes)}}
        body: Json = {"metadata": marked, "spec": {"value": self._writes}}
        assert await self.admin(method, path, body), f"{method} {path} was refused"

    async def admin(self, method: str, path: str, body: Json = None) -> bool:
        """Send a request; return whether it had success."""
        return await self.stage.attempt(method, path, body, seconds=40)

    async def ring(self, **spec: Json) -> None:
        """Change the ring."""
        assert await self.admin("PATCH", f"{RINGS_PATH}/{RING}", {"spec": spec})

    async def lease(self, name: str, method: str = "PATCH", **spec: Json) -> None:
        """Change the Lease of a shard, or delete it."""
        path = f"{LEASES_PATH.format('default')}/{name}"
        assert await self.admin(method, path, {"spec": spec} if spec else None)

    async def describe(self, shard: str, **metadata: Json) -> None:
        """Change labels or annotations of a Lease."""
        path = f"{LEASES_PATH.format('default')}/{shard}"
        assert await self.admin("PATCH", path, {"metadata": metadata})

    async def forge(
        self,
        name: str,
        namespace: str = "default",
        *,
        holder: str | None = None,
        seconds: int = LEASE.lease_duration,
    ) -> None:
        """Create the Lease of a shard that has no process."""
        if holder is None and namespace == "default":
            self.stage.history.happened(name, Happening.FORGED)
        holder = name if holder is None else holder
        body = held_lease(name, holder=holder, seconds=seconds)
        assert await self.admin("POST", LEASES_PATH.format(namespace), body)

    def holder(self, shard: str) -> str | None:
        """Return who holds the Lease of a shard; None: there is none."""
        stored = self.stage.storage.of(LEASES.id).get(ObjectRef("default", shard))
        return None if stored is None else stored.as_(Lease).spec.holder_identity or ""

    def label(
        self, name: str, key: str = OWNER, *, of: GroupResource = WEBSITES.id, at: str = "default"
    ) -> str:
        """Return a label of an object."""
        return self.stage.storage.of(of)[ObjectRef(at, name)].meta.label(key)

    def owners(self, of: GroupResource = WEBSITES.id, at: str = "default") -> dict[str, str]:
        """Return the shard of each object of a namespace."""
        objects = self.stage.storage.of(of).items()
        return {r.name: each.meta.label(OWNER) for r, each in objects if r.namespace == at}

    def of(self, shard: str) -> list[str]:
        """Return the names of the objects of a shard."""
        return [name for name, owner in self.owners().items() if owner == shard]

    def children(self) -> dict[str, str]:
        """Return the shard of each child."""
        return self.owners(CONFIGMAPS)

    def are_together(self) -> bool:
        """Return whether every child is on the shard of its parent."""
        parents = {each.meta.uid: each for each in self.stage.storage.of(WEBSITES.id).values()}
        return all(
            child.meta.controller is not None
            and parents[child.meta.controller.uid].meta.label(OWNER) == child.meta.label(OWNER)
            for child in self.stage.storage.of(CONFIGMAPS).values()
        )

    async def until(self, what: Callable[[], bool], *, within: float = 30.0) -> None:
        """Wait until something is so."""
        await eventually(what, within, self.owners)

    async def during(self, seconds: float, what: Callable[[], bool]) -> None:
        """Wait, while something is so all the time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            assert what(), f"{end - loop.time():.1f}s too early: {self.owners()}"
            await asyncio.sleep(0.05)
