"""A replica of the sharder on the stage, with shards and objects that do what a story says."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.api.ring import ControllerRing, RingStatus
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
from sharder.sdk.testing.requests import Call
from sharder.sdk.testing.storage import Change, Stored
from tests.replica.faults import FaultyStage
from tests.replica.puppet import Puppet, Written
from tests.stage.actors import RING, SHARDER, Actor, ReplicaActor
from tests.stage.stage import LEASES_PATH, RINGS_PATH, WEBSITES

OWNER: Final = owner_label(RING)
DRAIN: Final = drain_label(RING)
NEXT: Final = next_annotation(RING)
UNSEEN: Final = 3.0
"""An object that lost its label waits for its last shard for so long."""
SERIES: Final = {"controllerring": RING, "group": "example.com", "resource": "websites"}
"""The labels of the metrics of websites."""
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


class _About(msgspec.Struct, frozen=True):
    name: str


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    involved_object: _About
    reason: str
    message: str


class World(FaultyStage):
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

    async def quiet(self, *shards: str, **spec: Json) -> None:
        """Begin with shards that acknowledge nothing by themselves, and no webhook."""
        await self.begin(*shards, **spec)
        for shard in self.puppets.values():
            shard.acknowledges = False
        self.has_webhook = False

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

    async def waited(self, resource: GroupResource, *names: str) -> dict[str, float]:
        """Return for each object after how many seconds it has an owner; 30 if it gets none."""
        began, got = self.loop.time(), dict.fromkeys(names, 30.0)
        while self.loop.time() < began + 30 and 30.0 in got.values():
            for name in names:
                if self.owners(resource)[name] not in {"", "*"} and got[name] == 30.0:
                    got[name] = self.loop.time() - began
            await asyncio.sleep(0.05)
        return got

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


def _owner(meta: ObjectMeta) -> str:
    return meta.label(OWNER) + ("*" if meta.has_label(DRAIN) else "")
