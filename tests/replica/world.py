"""A replica of the sharder on the stage, with shards and objects that do what a story says."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeAlias

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease, format_time
from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.api.ring import ControllerRing, RingStatus
from sharder.core.errors import Unavailable
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    ObjectRef,
    drain_label,
    next_annotation,
    owner_label,
    pin_label,
)
from sharder.kube.client import MERGE_PATCH
from sharder.kube.typed_stores import LEASES, RINGS
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.requests import Client as User
from sharder.sdk.testing.storage import Change, Stored
from tests.stage.actors import POD_NAME, RING, SHARD_ACCOUNT, SHARDER, Actor, ReplicaActor
from tests.stage.network import wall_time
from tests.stage.stage import LEASES_PATH, RINGS_PATH, WEBSITES, Stage

OWNER: Final = owner_label(RING)
DRAIN: Final = drain_label(RING)
NEXT: Final = next_annotation(RING)
PIN: Final = pin_label(RING)
SITES: Final = WEBSITES.id
SECRETS: Final = GroupResource("", "secrets")
CONFIGMAPS: Final = GroupResource("", "configmaps")
EVENTS: Final = GroupResource("", "events")
LEASE_PATH: Final = LEASES_PATH.format("default")
SECONDS: Final = 5
"""The duration of the shards' Leases."""
GONE: Final = 2 * SECONDS + 3
"""After so many seconds of silence the objects of a shard are on others."""
STRANGE: Final = 35.0
"""Who was not there for so long since the replica began is certainly gone."""

_KINDS: Final = {
    SITES: ("example.com/v1", "Website"),
    SECRETS: ("v1", "Secret"),
    CONFIGMAPS: ("v1", "ConfigMap"),
}
_PATHS: Final = {SITES: "/apis/example.com/v1", SECRETS: "/api/v1", CONFIGMAPS: "/api/v1"}


Allows: TypeAlias = Callable[[User, str, GroupResource, str], bool]


class _About(msgspec.Struct, frozen=True):
    name: str


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    involved_object: _About
    reason: str
    message: str


class Written(NamedTuple):
    """A write of the sharder to an object."""

    name: str
    owner: str
    """With `*` while the object is draining."""
    next: str


class Puppet(Actor):
    """A shard that renews its Lease, and acknowledges drains if it is told to."""

    def __init__(self, world: "World", name: str, seconds: int) -> None:
        super().__init__(world, name, User(username=SHARD_ACCOUNT, extra={POD_NAME: (name,)}))
        self.world = world
        self.seconds = seconds
        self.renews = True
        self.acknowledges = True

    @override
    async def main(self) -> None:
        """Take the Lease, then renew it and acknowledge for ever."""
        await self.renew(acquireTime=format_time(self.clock.now()))
        while True:
            for _ in range(8):
                await asyncio.sleep(0.2)
                if self.acknowledges:
                    await self.acknowledge_all()
            with suppress(Unavailable):
                if self.renews:
                    await self.renew()

    async def renew(self, **spec: Json) -> None:
        """Hold the Lease from now on, as a shard that was away for a while too."""
        now: Json = format_time(self.clock.now())
        held: dict[str, Json] = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": self.seconds,
            "renewTime": now,
            **spec,
        }
        await self.world.put_lease(self.name, held, client=self)

    async def release(self) -> None:
        """Give the Lease back and end."""
        self.kill()
        await self.world.patch(f"{LEASE_PATH}/{self.name}", {"spec": {"holderIdentity": ""}})

    async def acknowledge_all(self) -> None:
        """Acknowledge each drain of an own object."""
        for resource in (SITES, SECRETS):
            for ref, stored in list(self.world.objects(resource).items()):
                labels = stored.meta.labels or {}
                if labels.get(OWNER) == self.name and DRAIN in labels:
                    await self.world.label(ref.name, {OWNER: None, DRAIN: None}, resource)


class World(Stage):
    """One replica that leads, unless a story starts more; nothing else writes by itself."""

    def __init__(self, seed: int = 0, *, servers: int = 1) -> None:
        super().__init__(seed, servers=servers)
        self.puppets = dict[str, Puppet]()
        self.has_webhook = True
        """Whether the API server reaches the webhook."""
        self.written = list[Written]()
        """The writes of the sharder to objects."""
        self.calls = list[Call]()
        """The requests of the sharder."""
        self._events = list[tuple[str, str, str]]()
        self.broken = list[str]()
        """Where the sharder broke a law that holds in every story."""
        self.leaves_children = False
        """Whether a story lets parents move without their children."""
        self.storage.observers.append(self._note)

    async def begin(self, *shards: str, **spec: Json) -> ReplicaActor:
        """Let these shards join a ring with this spec, and a replica lead."""
        await self.set_up(self.spec(**spec))
        for name in shards:
            self.join(name)
        replica = self.start()
        await asyncio.sleep(STRANGE)
        assert replica.leads
        return replica

    def spec(self, **more: Json) -> dict[str, Json]:
        """Return the spec of a ring of websites with their ConfigMaps, and of Secrets."""
        main: Json = {
            "group": "example.com",
            "resource": "websites",
            "controlledResources": [{"group": "", "resource": "configmaps"}],
        }
        plain: Json = {"group": "", "resource": "secrets"}
        return {"resources": [main, plain], "shardNamespaces": ["default"], **more}

    def start(self, name: str = "r0") -> ReplicaActor:
        """Start a replica whose requests are noted."""
        replica = self.replica(name)
        replica.link.before.append(self._note_call)
        return replica

    def join(self, name: str, *, seconds: int = SECONDS) -> Puppet:
        """Let a shard take its Lease."""
        puppet = self.puppets[name] = Puppet(self, name, seconds)
        puppet.start()
        return puppet

    # What users and other clients do.

    async def patch(self, path: str, body: Json) -> Stored:
        """Merge into an object as an admin."""
        return await self.write("PATCH", path, body)

    async def edit_ring(self, name: str = RING, **spec: Json) -> None:
        """Change the spec of the ring."""
        await self.patch(f"{RINGS_PATH}/{name}", {"spec": spec})

    async def put_lease(
        self, name: str, spec: dict[str, Json], *, client: Actor | None = None, **annotations: Json
    ) -> None:
        """Create a Lease of the ring, or change it."""
        writer = (client or self.user).client
        metadata: dict[str, Json] = {"annotations": annotations} if annotations else {}
        body: dict[str, Json] = {"metadata": metadata, "spec": spec}
        if ObjectRef("default", name) in self.objects(LEASES.id):
            path = f"{LEASE_PATH}/{name}"
            await writer.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        else:
            metadata |= {"name": name, "labels": {RING_LABEL: RING}}
            await writer.request("POST", LEASE_PATH, body=body)

    async def annotate_lease(self, name: str, **annotations: Json) -> None:
        """Annotate the Lease of a shard."""
        await self.patch(f"{LEASE_PATH}/{name}", {"metadata": {"annotations": annotations}})

    def path(self, name: str, resource: GroupResource = SITES, namespace: str = "default") -> str:
        """Return the path of an object, without a name that of its collection."""
        end = f"/{name}" if name else ""
        return f"{_PATHS[resource]}/namespaces/{namespace}/{resource.resource}{end}"

    async def put(
        self,
        name: str,
        owner: str = "",
        resource: GroupResource = SITES,
        *,
        of: str = "",
        to: str = "",
        namespace: str = "default",
        draining: bool = False,
        labels: Mapping[str, Json] | None = None,
        annotations: Mapping[str, Json] | None = None,
    ) -> ObjectMeta:
        """Create an object that stands so, without the webhook.

        `of` is what controls it, `to` the shard on which it belongs, and where its drain directs.
        """
        mine: dict[str, Json] = {OWNER: owner} if owner else {}
        mine |= {PIN: to} if to else {}
        metadata: dict[str, Json] = {
            "name": name,
            "labels": {**mine, **({DRAIN: "true"} if draining else {}), **(labels or {})},
            "annotations": {**({NEXT: to} if draining else {}), **(annotations or {})},
        }
        if of:
            metadata["ownerReferences"] = [self._reference(of, namespace)]
        kinds = dict(zip(("apiVersion", "kind"), _KINDS[resource], strict=True))
        with self.unreviewed():
            path = self.path("", resource, namespace)
            return (await self.write("POST", path, {**kinds, "metadata": metadata})).meta

    def _reference(self, of: str, namespace: str) -> Json:
        parent = self.objects(SITES)[ObjectRef(namespace, of)].meta
        version, kind = _KINDS[SITES]
        return {
            "apiVersion": version,
            "kind": kind,
            "name": of,
            "uid": parent.uid,
            "controller": True,
        }

    async def label(
        self,
        name: str,
        labels: Mapping[str, Json],
        resource: GroupResource = SITES,
        *,
        namespace: str = "default",
    ) -> None:
        """Change the labels of an object."""
        body: Json = {"metadata": {"labels": {**labels}}}
        await self.patch(self.path(name, resource, namespace), body)

    async def annotate(
        self, name: str, annotations: Mapping[str, Json], resource: GroupResource = SITES
    ) -> None:
        """Change the annotations of an object."""
        body: Json = {"metadata": {"annotations": {**annotations}}}
        await self.patch(self.path(name, resource), body)

    async def delete(
        self, name: str, resource: GroupResource = SITES, *, namespace: str = "default"
    ) -> None:
        """Delete an object."""
        await self.write("DELETE", self.path(name, resource, namespace))

    async def acknowledge(self, name: str, resource: GroupResource = SITES) -> None:
        """Release an object as its shard does."""
        await self.label(name, {OWNER: None, DRAIN: None}, resource)

    async def add_namespace(self, name: str, **labels: Json) -> None:
        """Create a namespace."""
        await self.write(
            "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}
        )

    @contextmanager
    def unreviewed(self) -> Iterator[None]:
        """Let requests pass without the webhook."""
        had, self.has_webhook = self.has_webhook, False
        try:
            yield
        finally:
            self.has_webhook = had

    # Faults.

    def refuse(
        self,
        code: int,
        name: str = "",
        *,
        method: str = "PATCH",
        part: str = "",
        message: str = "refused",
    ) -> Callable[[], None]:
        """Refuse requests of the sharder until the result is called; `part` is one of the path."""

        def refuses(call: Call) -> bool:
            ends = not name or call.path.endswith(f"/{name}")
            return call.method == method and ends and part in call.path

        async def hook(call: Call) -> None:
            if refuses(call):
                raise Refused(code, message)

        return self.intercept(hook)

    def intercept(self, hook: Callable[[Call], Awaitable[None]]) -> Callable[[], None]:
        """Call it before each request of the sharder, until the result is called."""
        links = [replica.link for replica in self.replicas.values()]
        for link in links:
            link.before.append(hook)

        def end() -> None:
            for link in links:
                link.before.remove(hook)

        return end

    def before(self, method: str, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Act once, right before the sharder's next request of this kind for this object."""
        left = [act]

        async def hook(call: Call) -> None:
            if left and call.method == method and call.path.endswith(f"/{name}"):
                await left.pop()()

        self.intercept(hook)

    def forbid(self, verb: str, *resources: GroupResource) -> None:
        """Take a right from the sharder, and end its watches of that."""
        for server in self.servers:
            server.allows = _without(server.allows, verb, resources)
            for resource in resources:
                server.hang_up(resource)

    def permit(self) -> None:
        """Give all rights back."""
        for server in self.servers:
            server.allows = lambda *_: True

    # What the API shows.

    def owners(self, resource: GroupResource = SITES, *, namespace: str = "") -> dict[str, str]:
        """Return the owner of each object, with `*` if it is draining."""
        return {
            ref.name: _owner(stored.meta)
            for ref, stored in sorted(self.objects(resource).items())
            if not namespace or ref.namespace == namespace
        }

    def owner(self, name: str, resource: GroupResource = SITES) -> str:
        """Return the owner of an object, with `*` if it is draining."""
        return self.owners(resource)[name]

    def meta(self, name: str, resource: GroupResource = SITES) -> ObjectMeta:
        """Return the metadata of an object."""
        return self.objects(resource)[ObjectRef("default", name)].meta

    def counts(self) -> dict[str, int]:
        """Return how many websites are on each shard."""
        owners = list(self.owners().values())
        return {owner: owners.count(owner) for owner in sorted(set(owners))}

    def lease(self, name: str) -> Lease:
        """Return the Lease of a shard."""
        return self.objects(LEASES.id)[ObjectRef("default", name)].as_(Lease)

    def state(self, name: str) -> str:
        """Return the state that the Lease of a shard shows."""
        return self.lease(name).metadata.label("alpha.sharding.timebertt.dev/state")

    def ring(self, name: str = RING) -> ControllerRing:
        """Return the ring."""
        return self.objects(RINGS.id)[ObjectRef("", name)].as_(ControllerRing)

    @property
    def status(self) -> RingStatus:
        """The status of the ring."""
        return self.ring().status

    def conditions(self, name: str = RING) -> dict[str, str]:
        """Return the reason of each condition of the ring."""
        return {each.type: each.reason for each in self.ring(name).status.conditions}

    def message(self, condition: str = "Ready", name: str = RING) -> str:
        """Return the message of a condition."""
        known = {each.type: each.message for each in self.ring(name).status.conditions}
        return known[condition]

    def events(self, reason: str = "") -> list[tuple[str, str]]:
        """Return the name of the object and the message of each Event with this reason."""
        return [(name, message) for name, why, message in self._events if reason in {"", why}]

    def told(self) -> list[tuple[str, str]]:
        """Return reason and message of each Event, the oldest first."""
        return [(why, message) for _, why, message in self._events]

    def metric(self, name: str, replica: str = "r0", **labels: str) -> float | None:
        """Return the value of a series of a replica, None if there is none."""
        registry = self.replicas[replica].registry
        return registry.get_sample_value(f"controller_sharding_{name}", labels)

    def requests(self, method: str, part: str = "") -> list[Call]:
        """Return the sharder's requests to paths with this part."""
        return [call for call in self.calls if call.method == method and part in call.path]

    # Inside.

    @override
    async def _review(self, path: str, body: bytes) -> bytes:
        if not self.has_webhook:
            raise ConnectionRefusedError
        return await super()._review(path, body)

    async def _note_call(self, call: Call) -> None:
        self.calls.append(call)

    def _note(self, change: Change) -> None:
        after = change.after
        if change.resource == EVENTS and change.before is None and after is not None:
            event = after.as_(_Event)
            self._events.append((event.involved_object.name, event.reason, event.message))
        by_sharder = change.author.username == SHARDER
        if not by_sharder or after is None or change.resource not in _KINDS:
            return
        meta = after.meta
        self.written.append(Written(meta.name, _owner(meta), meta.annotation(NEXT)))
        old = "" if change.before is None else change.before.meta.label(OWNER)
        new = meta.label(OWNER)
        if new in {"", old}:
            return
        if old and change.resource != CONFIGMAPS and self._holds_lease(old):
            self.broken.append(f"{meta.name} was taken from {old}, which holds its Lease")
        if change.resource == SITES and not self.leaves_children:
            self.broken += [
                f"{meta.name} got {new} before its child {ref.name}"
                for ref, child in self.objects(CONFIGMAPS).items()
                if child.meta.controller is not None
                and child.meta.controller.uid == meta.uid
                and child.meta.label(OWNER) != new
            ]

    def _holds_lease(self, shard: str) -> bool:
        stored = self.objects(LEASES.id).get(ObjectRef("default", shard))
        puppet = self.puppets.get(shard)
        is_held = stored is not None and stored.as_(Lease).spec.holder_identity == shard
        return is_held and puppet is not None and puppet.is_running


def _without(allows: Allows, verb: str, resources: Collection[GroupResource]) -> Allows:
    def fewer(user: User, asked: str, of: GroupResource, namespace: str) -> bool:
        is_taken = user.username == SHARDER and asked == verb and of in resources
        return not is_taken and allows(user, asked, of, namespace)

    return fewer


def _owner(meta: ObjectMeta) -> str:
    return meta.label(OWNER) + ("*" if meta.has_label(DRAIN) else "")


def now() -> str:
    """Return the present time as Leases tell it."""
    return format_time(wall_time())


def staged(test: Callable[..., Coroutine[object, None, None]]) -> Callable[..., None]:
    """Play a test on the stage: its first parameter is the world."""

    @functools.wraps(test)
    def run(**arguments: object) -> None:
        world = World()
        world.play(test(world, **arguments))
        errors = [f"{a.name}: {error}" for a in world.actors for error in a.process.errors]
        assert not [*errors, *world.broken]

    signature = inspect.signature(test)
    rest = [each for name, each in signature.parameters.items() if name != "world"]
    run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    del run.__wrapped__
    return run
