"""A ring of a test's own, and the hands of everybody in it.

Shards are Leases for an hour and nothing else: no process works or acknowledges, until a
test does.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import Condition, RingStatus
from sharder.core.errors import NotFound
from sharder.core.names import (
    RING_LABEL,
    ObjectRef,
    RingName,
    ShardName,
    drain_label,
    owner_label,
    webhook_configuration,
)
from sharder.core.placement.strategies.hashing import HashRing
from sharder.kube.typed_stores import LEASES, MUTATING, NAMESPACES, RINGS
from tests.support.eventually import eventually
from tests.support.users import CONTENT, SERVICE_ACCOUNTS, WITHIN, User

CONTROLLERS, TENANTS = "controllers", "tenants"
"""Namespaces of ServiceAccounts that may write all objects; shards' Leases are in the first."""

LABEL: Final = "example.com/ring"
"""Label of namespaces: the ring that selects them."""

SHARD_SECONDS: Final = 3600


class Scene:
    """One ring, its shards and a namespace that it selects."""

    def __init__(self, admin: User, author: User) -> None:
        self.admin = admin
        self.author = author
        self.ring = RingName(f"ring-{uuid.uuid4().hex[:8]}")
        self.namespace = f"{self.ring}-objects"
        self.owner, self.drain = owner_label(self.ring), drain_label(self.ring)
        self.shards: set[ShardName] = set()
        """Who should own objects."""

    def shard(self, letter: str) -> ShardName:
        """Return the full name of a shard: Leases of all rings stand in one namespace."""
        return ShardName(f"{self.ring}-{letter}")

    def wanted(self, obj: PartialObject) -> ShardName | None:
        """Return the owner that the ring's answer is for an object as it is stored."""
        return HashRing(self.shards).owner(_key(obj.group, obj.kind, obj.metadata.ref))

    def name_moving(self, of: Resource, come: str, *, frm: str = "") -> str:
        """Return a name that belongs to another shard than now once `come` is there.

        Args:
            of: Resource of the object.
            come: Letter of a shard that is not there yet.
            frm: Letter of the shard that it belongs to before; any by default.
        """
        before = HashRing(self.shards)
        after = HashRing({*self.shards, self.shard(come)})
        for name, key in self._names(of, "moving"):
            old, new = before.owner(key), after.owner(key)
            if new == self.shard(come) and (not frm or old == self.shard(frm)):
                return name
        raise AssertionError("no such name")

    def names_on_each(self, of: Resource, count: int) -> list[str]:
        """Return names so that the ring gives `count` of them to each shard that is there now."""
        return [name for name, _ in self._spread(of, count)]

    def _spread(self, of: Resource, count: int) -> list[tuple[str, ShardName]]:
        """Return such names, each with its shard."""
        hashed, found = HashRing(self.shards), list[tuple[str, ShardName]]()
        left = dict.fromkeys(self.shards, count)
        for name, key in self._names(of, "even"):
            owner = hashed.owner(key)
            if owner is not None and left[owner]:
                left[owner] -= 1
                found.append((name, owner))
            if len(found) == count * len(self.shards):
                return found
        raise AssertionError("no such names")

    def _names(self, of: Resource, word: str) -> Iterator[tuple[str, str]]:
        """Yield many names that no other scene has, each with what the ring hashes of it."""
        for number in range(100_000):
            ref = ObjectRef(self.place(of), f"{self.ring}-{word}-{number}")
            yield ref.name, _key(of.id.group, of.kind, ref)

    def owner_of(self, obj: PartialObject) -> str:
        """Return the owner label of an object, empty if it has none."""
        return obj.metadata.label(self.owner)

    def is_draining(self, obj: PartialObject) -> bool:
        """Return whether the object has the drain label."""
        return obj.metadata.has_label(self.drain)

    async def open_namespace(self, name: str, *, ring: str = "") -> None:
        """Create a namespace in which Pods can be created, selected by `ring` if one is named."""
        await self.admin.create(NAMESPACES, name, labels={LABEL: ring} if ring else {})
        await self.admin.create(SERVICE_ACCOUNTS, "default", namespace=name)

    async def join(self, letter: str) -> ShardName:
        """Let a shard come."""
        shard = self.shard(letter)
        await self.lease(shard, CONTROLLERS, leaseDurationSeconds=SHARD_SECONDS)
        self.shards.add(shard)
        return shard

    async def leave(self, letter: str) -> None:
        """Let a shard release its Lease."""
        body: Json = {"spec": {"holderIdentity": ""}}
        await self.admin.patch(LEASES, self.shard(letter), body, namespace=CONTROLLERS)
        self.shards.discard(self.shard(letter))

    async def describe_lease(self, letter: str, body: Json) -> None:
        """Change a shard's Lease."""
        await self.admin.patch(LEASES, self.shard(letter), body, namespace=CONTROLLERS)

    async def lease(
        self, name: str, namespace: str, *, by: User | None = None, **spec: Json
    ) -> PartialObject:
        """Create a Lease of the ring that is held and complete, but for what `spec` says."""
        now = format_time(datetime.now(UTC))
        held = {"holderIdentity": name, "acquireTime": now, "renewTime": now}
        content: dict[str, Json] = {"spec": {**held, "leaseDurationSeconds": 15, **spec}}
        return await (by or self.admin).create(
            LEASES, name, namespace=namespace, content=content, labels={RING_LABEL: self.ring}
        )

    async def create(self, of: Resource, name: str, **fields: Json) -> PartialObject:
        """Create an object as the author, in the scene's namespace."""
        return await self.author.create(of, name, namespace=self.place(of), labels=fields)

    async def get(self, of: Resource, obj: PartialObject) -> PartialObject:
        """Read an object again."""
        meta = obj.metadata
        return await self.admin.get(of, meta.name, namespace=meta.namespace)

    async def drained(self, of: Resource, *, come: str = "d", frm: str = "") -> PartialObject:
        """Create an object and let a shard come that it belongs to; return it when it drains."""
        obj = await self.create(of, self.name_moving(of, come, frm=frm))
        await self.join(come)
        return await self.until_draining(of, obj)

    async def until_owned(self, of: Resource, obj: PartialObject, *owners: str) -> PartialObject:
        """Wait until an object has one of the owners, by default the one that is wanted."""

        async def owned() -> PartialObject:
            now = await self.get(of, obj)
            assert self.owner_of(now) in (owners or {self.wanted(now)}), now.metadata.labels
            return now

        return await eventually(owned, within=WITHIN)

    async def until_admitting(self, of: Resource) -> None:
        """Wait until the API server calls the webhook, and the webhook knows all shards."""
        spread = self._spread(of, 1)

        async def owned() -> None:
            for name, wanted in spread:
                assert self.owner_of(await self._probe(of, name)) == wanted

        await eventually(owned, within=WITHIN)

    async def until_placing(self, of: Resource) -> None:
        """Wait until objects get an owner as they are created, whichever it is."""

        async def owned() -> bool:
            return self.owner_of(await self._probe(of, f"{self.ring}-probe")) in self.shards

        await eventually(owned, within=WITHIN)

    async def _probe(self, of: Resource, name: str) -> PartialObject:
        """Return what an object would be if it were created."""
        return await self.author.create(
            of, name, namespace=self.place(of), dry_run=True,
            content=CONTENT.get(of.kind), labels={LABEL: self.ring},
        )  # fmt: skip

    async def until_available(self) -> None:
        """Wait until the sharder counts all shards of the scene, and no others, as available."""

        async def counted() -> bool:
            return (await self.status()).available_shards == len(self.shards)

        await eventually(counted, within=WITHIN)

    async def acknowledge(self, of: Resource, obj: PartialObject) -> PartialObject:
        """Acknowledge a drain as the shard does."""
        return await self.author.label(of, obj, {self.owner: None, self.drain: None})

    async def until_draining(self, of: Resource, obj: PartialObject) -> PartialObject:
        """Wait until an object is draining."""

        async def draining() -> PartialObject:
            now = await self.get(of, obj)
            assert self.is_draining(now), now.metadata.labels
            return now

        return await eventually(draining, within=WITHIN)

    async def status(self) -> RingStatus:
        """Return what the sharder says about the ring."""
        return (await self.admin.ring(self.ring)).status

    async def until_ready(self, status: str) -> Condition:
        """Wait until the ring has the condition Ready of this status."""

        async def there() -> Condition:
            (found,) = (c for c in (await self.status()).conditions if c.type == "Ready")
            assert found.status == status
            return found

        return await eventually(there, within=WITHIN)

    async def create_ring(
        self, main: Iterable[Resource], controlled: Iterable[Resource], spec: Mapping[str, Json]
    ) -> None:
        """Create the ring; fields of `spec` win."""
        selector: Json = {"matchLabels": {LABEL: self.ring}}
        content = {"resources": _resources(main, controlled), "namespaceSelector": selector}
        await self.admin.create(RINGS, self.ring, content={"spec": {**content, **spec}})

    async def set_resources(self, *main: Resource) -> None:
        """Let the ring look after these resources instead."""
        body: Json = {"spec": {"resources": _resources(main, ())}}
        await self.admin.patch(RINGS, self.ring, body)

    async def clean_up(self) -> None:
        """Delete ring and Leases, and wait until the webhook's configuration is gone."""
        await self.admin.delete(RINGS, self.ring)
        for shard in self.shards:
            await self.admin.delete(LEASES, shard, namespace=CONTROLLERS)

        async def gone() -> bool:
            try:
                await self.admin.get(MUTATING, webhook_configuration(self.ring))
            except NotFound:
                return True
            return False

        await eventually(gone, within=WITHIN)

    def place(self, of: Resource) -> str:
        """Return the namespace of a resource's objects in this scene."""
        return self.namespace if of.namespaced else ""


def _resources(main: Iterable[Resource], controlled: Iterable[Resource]) -> list[Json]:
    follow = [each.id._asdict() for each in controlled]
    more = {"controlledResources": follow} if follow else {}
    return [{**each.id._asdict(), **more} for each in main]


def _key(group: str, kind: str, ref: ObjectRef) -> str:
    """What the ring hashes, written down once more: the tests do not ask the code they test."""
    return f"{group}/{kind}/{ref.namespace}/{ref.name}"
