"""Everything that happened to the objects of the story, in the order of etcd.

One etcd orders all writes by revision, so that what was true at a moment can be read off: who
owned a Secret when its ConfigMap moved, and which shards held their Leases then.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from hack.ownership import CONFIGMAPS, DRAIN, OWNER, SECRETS
from hack.playground import NAMESPACE, SHARDS
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.leases.state import is_held
from sharder.core.names import RING_LABEL, SHARDER_IDENTITY, GroupResource
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import leases
from sharder.ports import Changed, Listed, Removed, Watchable
from sharder.runtime.clock import SystemClock
from sharder.runtime.reflector import follow

Thing = TypeVar("Thing", bound=PartialObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The state of an object after a write to it; `obj` is its last one if it was deleted."""

    revision: int
    obj: PartialObject
    seen: datetime
    deleted: bool = False
    is_listed: bool = False
    """Whether it was found in a list: then writes before it may be missing here."""

    @property
    def owner(self) -> str:
        """The shard that the object's label names, empty if none."""
        return self.obj.metadata.label(OWNER)

    @property
    def is_draining(self) -> bool:
        return self.obj.metadata.has_label(DRAIN)


@dataclass(slots=True)
class Trace:
    """Writes by kind, each list in the order of revisions."""

    secrets: list[Write] = field(default_factory=list)
    configmaps: list[Write] = field(default_factory=list)
    leases: list[Write] = field(default_factory=list)
    now: dict[str, Write] = field(default_factory=dict)
    """The last write to each object, by uid."""

    def orphans(self, live: set[str]) -> list[str]:
        """Return the objects that no shard of `live` may work on now."""
        return [
            w.obj.metadata.name for w in self.now.values() if w.owner not in live or w.is_draining
        ]

    async def record_objects(self, client: Client, resource: GroupResource) -> None:
        """Record Secrets or ConfigMaps until cancelled."""
        objects = KubeObjects(client)
        store = objects.of(await objects.find(resource))
        into = {SECRETS: self.secrets, CONFIGMAPS: self.configmaps}[resource]
        async for write in _writes(store, str(resource)):
            if write.obj.metadata.namespace == NAMESPACE:
                into.append(write)
                self.now[write.obj.metadata.uid] = write

    async def record_leases(self, client: Client) -> None:
        """Record the Leases of shards, of whatever ring, until cancelled."""
        store = leases(client, namespace=SHARDS, labels=RING_LABEL)
        async for write in _writes(store, "leases"):
            self.leases.append(write)

    def births(self) -> Counter[str]:
        """Return how many ConfigMaps of each name there ever were."""
        uids = {w.obj.metadata.uid: w.obj.metadata.name for w in self.configmaps}
        return Counter(uids.values())

    def first(self, name: str) -> Write:
        """Return the Secret as it was created."""
        return next(w for w in self.secrets if w.obj.metadata.name == name)

    def drained_after(self, revision: int) -> set[str]:
        """Return the Secrets that were asked to move after `revision`."""
        return {
            w.obj.metadata.name for w in self.secrets if w.revision > revision and w.is_draining
        }

    def last_revision(self) -> int:
        """Return the newest revision seen."""
        return max(w.revision for w in (*self.secrets, *self.configmaps, *self.leases))

    def robberies(self) -> list[str]:
        """Return the Secrets that were taken from a working shard without asking it."""
        return [
            f"{write.obj.metadata.name}: {last.owner} -> {write.owner}"
            for last, write in _departures(self.secrets)
            # A shard that releases a Secret leaves it without owner: its ConfigMap goes first.
            if write.owner and self._held(last.owner, write.revision)
        ]

    def returns(self) -> list[str]:
        """Return what was sent one way and then back, or asked to move twice."""
        told, by_uid = list[str](), defaultdict[str, list[Write]](list)
        for write in (*self.secrets, *self.configmaps):
            by_uid[write.obj.metadata.uid].append(write)
        for writes in by_uid.values():
            owners = [owner for owner, _ in groupby(w.owner for w in writes if w.owner)]
            drains = [is_draining for is_draining, _ in groupby(w.is_draining for w in writes)]
            if len(set(owners)) < len(owners) or drains.count(True) > 1:
                told.append(f"{writes[-1].obj.metadata.name}: {owners}, {drains}")
        return told

    def versions(self) -> dict[str, int]:
        """Return the revision of the last write to each object, by uid."""
        return {uid: write.revision for uid, write in self.now.items()}

    def takings(self) -> list[str]:
        """Return the shards whose Leases the sharder has taken while they held them, in order."""
        told: list[str] = []
        holders: dict[str, str] = {}
        for write in self.leases:
            name, lease = write.obj.metadata.name, write.obj
            assert isinstance(lease, Lease)
            holder = lease.spec.holder_identity or ""
            if holder == SHARDER_IDENTITY and holders.get(name) == name:
                told.append(name)
            holders[name] = holder
        return told

    def early_leavers(self) -> list[str]:
        """Return the ConfigMaps that left a working shard while their Secret was still there."""
        return [
            f"{write.obj.metadata.name}: {last.owner} -> {write.owner}"
            for last, write in _departures(self.configmaps)
            if self._owner_of_controller(write) == last.owner
            and self._held(last.owner, write.revision)
        ]

    def owner_before(self, uid: str, revision: int) -> str:
        """Return the shard that a Secret had when `revision` was written, empty if none."""
        owners = [
            w.owner for w in self.secrets if w.obj.metadata.uid == uid and w.revision < revision
        ]
        return owners[-1] if owners else ""

    def _owner_of_controller(self, write: Write) -> str | None:
        """Return the shard of what controls the object, at the moment of the write."""
        controller = write.obj.metadata.controller
        return None if controller is None else self.owner_before(controller.uid, write.revision)

    def _held(self, shard: str, revision: int) -> bool:
        """Return whether the shard held its Lease at `revision`."""
        states = [
            w for w in self.leases if w.obj.metadata.name == shard and w.revision <= revision
        ]
        if not states or states[-1].deleted:
            return False
        lease = states[-1].obj
        assert isinstance(lease, Lease)
        return is_held(lease)


@asynccontextmanager
async def tracing(client: Client) -> AsyncIterator[Trace]:
    """Record everything as long as the block lasts."""
    trace = Trace()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(trace.record_objects(client, SECRETS)),
            group.create_task(trace.record_objects(client, CONFIGMAPS)),
            group.create_task(trace.record_leases(client)),
        ]
        yield trace
        for task in tasks:
            task.cancel()


def _departures(writes: list[Write]) -> Iterator[tuple[Write, Write]]:
    """Yield each write by which an object left its shard, behind the write before it."""
    before: dict[str, Write] = {}
    for write in writes:
        last = before.get(write.obj.metadata.uid)
        before[write.obj.metadata.uid] = write
        if last is None or write.is_listed:
            continue
        if last.owner and last.owner != write.owner:
            yield last, write


def _write(obj: PartialObject, *, deleted: bool = False, is_listed: bool = False) -> Write:
    return Write(
        revision=int(obj.metadata.resource_version),
        obj=obj,
        seen=SystemClock().now(),
        deleted=deleted,
        is_listed=is_listed,
    )


async def _writes(store: Watchable[Thing], doing: str) -> AsyncIterator[Write]:
    events = follow(store, doing=f"trace {doing}", clock=SystemClock(), rng=random.Random(1))
    async with aclosing(events):
        async for event in events:
            match event:
                case Listed(items):
                    for item in items:
                        yield _write(item, is_listed=True)
                case Changed(obj):
                    yield _write(obj)
                case Removed(obj):
                    yield _write(obj, deleted=True)
