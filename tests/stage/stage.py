"""The stage: one API server in memory, and processes of the product, on virtual time."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError
from sharder.core.fence import fence_of
from sharder.core.names import RING_LABEL, GroupResource, ObjectRef
from sharder.core.placement.strategy import CustomFunction
from sharder.kube.client import JSON, MERGE_PATCH, REQUEST_SECONDS
from sharder.kube.typed_stores import LEASES, MUTATING, NAMESPACES, RINGS, VALIDATING
from sharder.sdk.testing.requests import Client as User
from sharder.sdk.testing.resources import BUILT_IN, custom
from sharder.sdk.testing.storage import Change, Storage, Stored
from tests.history.traces import Happening, Span
from tests.stage.actors import (
    HOST,
    LEASE,
    POD_NAME,
    RING,
    SHARD_ACCOUNT,
    Actor,
    ReplicaActor,
    ShardActor,
)
from tests.stage.admission import BINDINGS, POLICIES, StageAdmission
from tests.stage.foreign_controller import ForeignController
from tests.stage.history import History
from tests.stage.loop import WORLD, VirtualLoop
from tests.stage.network import wall_time
from tests.stage.protocol_shard import ProtocolShard
from tests.stage.proxied import ProxiedShard
from tests.support.full_server import FullServer

T = TypeVar("T")

WEBSITES: Final = custom("websites.example.com", kind="Website")
CONFIGMAPS: Final = GroupResource("", "configmaps")
LEADER: Final = ObjectRef("sharding-system", "sharder")
RINGS_PATH: Final = "/apis/sharding.timebertt.dev/v1alpha1/controllerrings"
LEASES_PATH: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class Stage:
    """Everything that happens in one play, from one seed."""

    def __init__(self, seed: int = 0, *, servers: int = 1) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.loop = VirtualLoop()  # type: ignore[abstract]  # what is missing is not used
        self.storage = Storage()
        self.actors = list[Actor]()
        self.replicas = dict[str, ReplicaActor]()
        self.shards = dict[str, Actor]()
        self.proxies = dict[str, ProxiedShard]()
        self.controllers = dict[str, ForeignController]()
        """What runs behind each proxy."""
        self._kubelets = dict[str, asyncio.Task[None]]()
        known = (LEASES, MUTATING, VALIDATING, RINGS, NAMESPACES, POLICIES, BINDINGS, WEBSITES)
        resources: dict[GroupResource, Resource] = {
            **BUILT_IN,
            **{each.id: each for each in known},
        }
        self.servers = [
            FullServer(self.storage, resources.values(), now=wall_time) for _ in range(servers)
        ]
        for server in self.servers:
            server.writer.admission = StageAdmission(server, {HOST: self._review})
        self.custom = dict[str, CustomFunction]()
        """Strategies that other packages bring."""
        self.lag = 0.0
        """How long a watch cache can be behind its storage, in seconds."""
        for server in self.servers:
            self.storage.observers.remove(server.deliver)
            self.storage.observers.append(Lagging(self, server).observe)
        self.history = History(
            now=self.loop.time,
            ring=RING,
            main=WEBSITES.id,
            controlled=CONFIGMAPS,
            leader=LEADER,
            shards="default",
            pod_of=_pod_of,
        )
        self.storage.observers.append(self.history.observe)
        self.user = Actor(self, "user", User(username="alice"))

    def play(self, main: Coroutine[Any, Any, T]) -> T:
        """Play the main coroutine to its end."""

        async def whole() -> T:
            try:
                return await main
            finally:
                for each in self.actors:
                    each.link.is_closed = True

        return self.loop.play(whole(), (each.process for each in self.actors))

    async def write(
        self, method: str, path: str, body: Json = None, *, seconds: float = REQUEST_SECONDS
    ) -> Stored:
        """Write as a user, within so many seconds; an object is created at its collection."""
        kind = MERGE_PATCH if method == "PATCH" else JSON
        answer = await self.user.client.request(
            method, path, body=body, content_type=kind, timeout=seconds
        )
        return Stored(msgspec.json.decode(answer))

    async def attempt(
        self, method: str, path: str, body: Json = None, *, seconds: float = REQUEST_SECONDS
    ) -> bool:
        """Write as a user; return whether it had success."""
        try:
            await self.write(method, path, body, seconds=seconds)
        except ApiError:
            return False
        return True

    def replica(self, name: str) -> ReplicaActor:
        """Start a replica of the sharder, or start it again."""
        actor = self.replicas[name] = ReplicaActor(self, name, server=self._server())
        actor.start()
        return actor

    def shard(self, name: str) -> ShardActor:
        """Start a shard, or start it again."""
        actor = self.shards[name] = ShardActor(self, name, server=self._server())
        actor.start()
        return actor

    def protocol_shard(self, name: str) -> ProtocolShard:
        """Start a shard that was written from the protocol, or start it again."""
        actor = self.shards[name] = ProtocolShard(self, name, server=self._server())
        actor.start()
        return actor

    def proxied_shard(self, name: str) -> ProxiedShard:
        """Start a controller that nobody changed behind a proxy, or start the proxy again."""
        actor = ProxiedShard(self, name, server=self._server())
        self.shards[name] = self.proxies[name] = actor
        actor.start()
        if name not in self._kubelets:
            self._kubelets[name] = self.loop.create_task(self._keep_controller(name))
        return actor

    async def _keep_controller(self, pod: str) -> None:
        """Start the controller of a pod whenever none runs and the proxy listens.

        Note while it does not work: the shard is away then.
        """
        while True:
            proxy = self.proxies[pod]
            if proxy.server is not None and not proxy.is_ending and proxy.controller is None:
                self.controllers[pod] = ForeignController(self, pod)
                self.controllers[pod].start()
            controller = self.controllers.get(pod)
            if controller is not None and not controller.works:
                # The proxy may renew the Lease still: away again, as often as that happens.
                is_paused = controller.process.is_stopped
                kind = Happening.PAUSED if is_paused else Happening.ENDED
                self.history.happened(pod, kind)
            await asyncio.sleep(0.5)

    async def set_up(self, spec: Json, *, fence: bool = False) -> None:
        """Create the namespaces and the ring, and its fence if there is one."""
        for name in ("default", "sharding-system", "kube-system"):
            labels: Json = {"kubernetes.io/metadata.name": name}
            metadata: Json = {"name": name, "labels": labels}
            await self.write("POST", "/api/v1/namespaces", {"metadata": metadata})
        await self.write("POST", RINGS_PATH, {"metadata": {"name": RING}, "spec": spec})
        if fence:
            ring = self.storage.of(RINGS.id)[ObjectRef("", RING)].as_(ControllerRing)
            policy, binding = fence_of(ring, [ObjectRef("default", "shard")])
            await self._bind(policy, binding)

    async def deny_creation(self, resource: str, *, unless: str) -> None:
        """Let a policy refuse, after admission, to create objects without a property."""
        rule: Json = {"apiGroups": ["*"], "operations": ["CREATE"], "resources": [resource]}
        spec: Json = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": unless, "message": "the cluster does not want it"}],
        }
        policy: Json = {"metadata": {"name": "unwanted"}, "spec": spec}
        await self._bind(
            policy, {"metadata": {"name": "unwanted"}, "spec": {"policyName": "unwanted"}}
        )

    async def _bind(self, policy: Json, binding: Json) -> None:
        for resource, body in ((POLICIES, policy), (BINDINGS, binding)):
            path = f"/apis/{resource.id.group}/v1/{resource.id.resource}"
            await self.write("POST", path, body)

    @contextmanager
    def without_webhook(self) -> Iterator[None]:
        """Let no replica answer reviews while the block lasts."""
        ready = [each for each in self.replicas.values() if each.is_ready]
        for each in ready:
            each.is_ready = False
        try:
            yield
        finally:
            for each in ready:
                each.is_ready = each.is_running

    @contextmanager
    def away(self) -> Iterator[None]:
        """Have no API server meanwhile."""
        outages, span = self.history.outages, Span(begin=self.loop.time())
        outages.append(span)
        for server in self.servers:
            server.go_away()
        yield
        for server in self.servers:
            server.restart()
        outages[outages.index(span)] = replace(span, end=self.loop.time())

    def backup(self) -> tuple[int, dict[GroupResource, dict[ObjectRef, Stored]]]:
        """Return the state of etcd, to be restored."""
        return self.storage.revision, {of: dict(each) for of, each in self.storage.objects.items()}

    async def restore(
        self, backup: tuple[int, dict[GroupResource, dict[ObjectRef, Stored]]]
    ) -> None:
        """Bring an older state of etcd back; the history begins anew, since revisions do."""
        with self.away():
            await asyncio.sleep(1)  # no server starts in no time
            self.storage.revision, self.storage.objects = backup
            self.storage.compact()
        for part in (self.history.writes, self.history.children, self.history.leases):
            part.clear()
        self.history.sent.clear()

    def objects(self, resource: GroupResource) -> Mapping[ObjectRef, Stored]:
        """Return all objects of a resource."""
        return self.storage.of(resource)

    def _server(self) -> int:
        return self.rng.randrange(len(self.servers))

    async def _review(self, path: str, body: bytes) -> bytes:
        """Send a review to one of the replicas that the Service lists."""
        listed = [each for each in self.replicas.values() if each.is_ready]
        if not listed:
            raise ConnectionRefusedError
        return await self.rng.choice(listed).review(path, body)


class Lagging:
    """Brings changes to the watch cache of one API server, in order, a moment later."""

    def __init__(self, stage: Stage, server: FullServer) -> None:
        self._stage = stage
        self._server = server
        self._last = 0.0

    def observe(self, change: Change) -> None:
        """Deliver a change now, or when the cache gets that far."""
        loop, lag = self._stage.loop, self._stage.lag
        due = max(self._last, loop.time() + lag * self._stage.rng.random() ** 3)
        if lag == 0.0 and self._last <= loop.time():
            self._server.deliver(change)
            return
        self._last = due
        loop.call_at(due, self._deliver, change, self._server.starts, context=WORLD)

    def _deliver(self, change: Change, starts: int) -> None:
        if starts == self._server.starts:
            self._server.deliver(change)


def held_lease(name: str, *, holder: str, seconds: int = LEASE.lease_duration) -> Json:
    """Return the Lease of a shard of the ring that was taken now."""
    now = format_time(wall_time())
    times: dict[str, Json] = {"acquireTime": now, "renewTime": now}
    return {
        "metadata": {"name": name, "labels": {RING_LABEL: RING}},
        "spec": {**times, "holderIdentity": holder, "leaseDurationSeconds": seconds},
    }


async def eventually(
    holds: Callable[[], object], within: float = 120.0, told: Callable[[], object] = lambda: ""
) -> float:
    """Wait until it holds; return after how many seconds.

    Raises:
        AssertionError: it did not hold in time; with what is `told` then.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not holds():
        assert loop.time() < began + within, f"not within {within:g} s: {told()}"
        await asyncio.sleep(0.1)
    return loop.time() - began


def _pod_of(author: object) -> str:
    if isinstance(author, User) and author.username == SHARD_ACCOUNT:
        return author.extra[POD_NAME][0]
    return ""
