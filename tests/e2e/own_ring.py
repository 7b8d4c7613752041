"""A ring of its own on a shared control plane, with real shards."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import msgspec

from hack.ownership import CONFIGMAPS, SECRETS
from hack.playground import CONTROLLER, Playground
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing, RingStatus
from sharder.core.leases.state import ShardState
from sharder.core.names import GroupResource, RingName, owner_label
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.clock import SystemClock
from sharder.runtime.reflector import follow
from tests.e2e.history import History
from tests.support.eventually import eventually

WITHIN = 60.0
"""Seconds that anything without a limit of its own may take on a slow machine."""
AT_ONCE = 25
"""Creates of one client under way: with many more, the API server itself answers 429."""
LEASE_SECONDS = 15
"""As everywhere but in other tests: a flood keeps shards from renewing shorter ones in time."""


class OwnRing:
    """A ring over the one namespace of its name."""

    def __init__(self, playground: Playground, clients: list[Client], name: str) -> None:
        """`clients` have the viewer's rights."""
        self.name = name
        self.history = History(RingName(name))
        self.live: set[str] = set()
        """The shards that are to be available."""
        self._playground = playground
        self._clients = clients
        self._objects = KubeObjects(clients[0])

    async def install(self, placement: Json) -> None:
        """Create the ring and its namespace."""
        labels: Json = {"kubernetes.io/metadata.name": self.name}
        controlled: Json = [{"group": "", "resource": "configmaps"}]
        secrets: Json = {"group": "", "resource": "secrets", "controlledResources": controlled}
        spec: Json = {
            "resources": [secrets],
            "namespaceSelector": {"matchLabels": labels},
            "placement": placement,
        }
        version, named = "sharding.timebertt.dev/v1alpha1", {"metadata": {"name": self.name}}
        for manifest in (
            {"apiVersion": "v1", "kind": "Namespace", **named},
            {"apiVersion": version, "kind": "ControllerRing", **named, "spec": spec},
        ):
            await asyncio.to_thread(self._playground.plane.apply, json.dumps(manifest))

    async def edit(self, **placement: Json) -> None:
        """Change fields of the placement, as a person does."""
        await self.change(placement=placement)

    async def change(self, **spec: Json) -> None:
        """Merge fields into the ring's spec, as a person does."""
        patch = json.dumps({"spec": spec})
        arguments = ("patch", "controllerring", self.name, "--type=merge", "-p", patch)
        await asyncio.to_thread(self._playground.plane.kubectl, *arguments)

    async def status(self) -> RingStatus:
        """Return what the sharder says of the ring."""
        path = f"/apis/sharding.timebertt.dev/v1alpha1/controllerrings/{self.name}"
        answer = await self._clients[0].request("GET", path)
        return msgspec.json.decode(answer, type=ControllerRing).status

    async def start(
        self, *shards: str, lease_seconds: int = LEASE_SECONDS, **environment: str
    ) -> None:
        """Start shards, and return when the sharder knows that they are available."""
        self._playground.lease_seconds = lease_seconds
        for shard in shards:
            command = (*CONTROLLER, "--ring", self.name)
            self._playground.start_shard(shard, command, **environment)
        self.live |= set(shards)

        async def available() -> bool:
            # The number alone can be an old one, of a shard that has just left.
            status = await self.status()
            ready = {each.name for each in status.shard_statuses if each.state == ShardState.READY}
            return status.available_shards == len(self.live) and ready.issuperset(shards)

        await eventually(available, within=WITHIN)

    def kill(self, shard: str) -> None:
        """End a shard by SIGKILL."""
        self._playground.kill(shard)
        self.live.discard(shard)

    async def until_placing(self) -> None:
        """Wait until every replica gives what is created an owner."""

        async def placing() -> None:
            async with asyncio.TaskGroup() as group:
                probes = [
                    group.create_task(self._create(client, f"probe-{number}", query="?dryRun=All"))
                    for client in self._clients
                    for number in range(10)
                ]
            owners = {p.result().metadata.label(owner_label(RingName(self.name))) for p in probes}
            assert owners <= self.live, owners

        await eventually(placing, within=WITHIN)

    async def create(self, names: Iterable[str], **labels: Callable[[int], str]) -> None:
        """Create Secrets, by several clients at once; that one fails is an error."""
        numbered = iter(list(enumerate(names)))

        async def work(client: Client) -> None:
            for number, name in numbered:
                await self._create(client, name, {k: of(number) for k, of in labels.items()})

        async with asyncio.TaskGroup() as group:
            for client in self._clients:
                for _ in range(AT_ONCE):
                    group.create_task(work(client))

    async def delete(self, names: Iterable[str]) -> None:
        """Delete Secrets, all at once."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                path = f"/api/v1/namespaces/{self.name}/secrets/{name}"
                group.create_task(self._clients[0].request("DELETE", path))

    async def read_loads(self) -> Counter[str]:
        """Read from the API server how many Secrets each shard has."""
        label = owner_label(RingName(self.name))
        return Counter([s.metadata.label(label) async for s in self._stream(SECRETS)])

    async def versions(self) -> dict[str, str]:
        """Read the resource versions of all Secrets and ConfigMaps, by uid."""
        versions: dict[str, str] = {}
        for resource in (SECRETS, CONFIGMAPS):
            async for obj in self._stream(resource):
                versions[obj.metadata.uid] = obj.metadata.resource_version
        return versions

    async def strays(self) -> list[str]:
        """Read which ConfigMaps are not where the Secret is that controls them, if that is owned.

        What is on no shard yet is no stray.
        """
        label, owners = owner_label(RingName(self.name)), dict[str, str]()
        async for obj in self._stream(SECRETS):
            owners[obj.metadata.uid] = obj.metadata.label(label)
        children = [child async for child in self._stream(CONFIGMAPS)]
        where = [
            (c.metadata.name, c.metadata.label(label), c.metadata.controller) for c in children
        ]
        return [
            f"{name}: {shard}, not {owners[by.uid]}"
            for name, shard, by in where
            if by is not None and owners.get(by.uid, "") not in {"", shard}
        ]

    async def until(self, fact: Callable[[History], bool], *, within: float = WITHIN) -> None:
        """Wait until something is so, as the watch shows it."""

        async def probe() -> None:
            history = self.history
            shown = dict(history.loads()), f"{len(history.draining())} draining"
            assert fact(history), shown

        await eventually(probe, within=within)

    async def until_worked_on(self) -> None:
        """Wait until each Secret has checksums, and nothing is written any more."""

        async def quiet() -> None:
            before = await self.versions()
            assert len(before) >= 2 * len(self.history.now), len(before)
            await asyncio.sleep(2)
            assert await self.versions() == before

        await eventually(quiet, within=120)

    async def record(self) -> None:
        """Follow the Secrets until cancelled."""
        store = self._objects.of(await self._objects.find(SECRETS), namespace=self.name)
        rng = random.Random(1)
        events = follow(store, doing="record", clock=SystemClock(), rng=rng)
        async with aclosing(events):
            async for event in events:
                match event:
                    case Listed(items):
                        for item in items:
                            self.history.take(item)
                    case Changed(obj):
                        self.history.take(obj)
                    case Removed(obj):
                        self.history.take(obj, deleted=True)

    def clean_up(self) -> None:
        """End the shards and delete the ring."""
        for shard in sorted(self.live):
            self._playground.kill(shard)
        self._playground.plane.kubectl("delete", "controllerring", self.name)

    async def _create(
        self,
        client: Client,
        name: str,
        labels: Mapping[str, str] | None = None,
        *,
        query: str = "",
    ) -> PartialObject:
        path = f"/api/v1/namespaces/{self.name}/secrets{query}"
        metadata: Json = {"name": name, "labels": labels or {}}
        body: Json = {"metadata": metadata, "stringData": {"password": f"{name}-secret"}}
        answer = await client.request("POST", path, body=body, timeout=WITHIN)
        return msgspec.json.decode(answer, type=PartialObject)

    async def _stream(self, resource: GroupResource) -> AsyncIterator[PartialObject]:
        store = self._objects.of(await self._objects.find(resource), namespace=self.name)
        async for obj in store.stream():
            if obj.metadata.name != "kube-root-ca.crt":
                yield obj


@asynccontextmanager
async def own_ring(
    playground: Playground,
    name: str,
    *shards: str,
    placement: Json,
    clients: int = 1,
    **environment: str,
) -> AsyncIterator[OwnRing]:
    """Set up a ring that places what is created; its shards and itself end with the block.

    `environment` is that of the shards, on top of what they need.
    """
    async with AsyncExitStack() as stack:
        users = [await connect(str(playground.author)) for _ in range(clients)]
        for user in users:
            stack.push_async_callback(user.close)
        ring = OwnRing(playground, users, name)
        await ring.install(placement)
        stack.push_async_callback(asyncio.to_thread, ring.clean_up)
        await ring.start(*shards, lease_seconds=LEASE_SECONDS, **environment)
        await ring.until_placing()
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(ring.record(), name="record")
            yield ring
            recording.cancel()
