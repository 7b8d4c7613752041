"""What processes leave behind, as etcd has it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from hack.playground import NAMESPACE, RING, SHARDS, SYSTEM
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import PartialObject
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, RingName, drain_label, owner_label
from tests.history.etcd import Stored, record
from tests.history.traces import (
    Child,
    Event,
    Happening,
    Held,
    Request,
    Sent,
    Span,
    Trace,
    Work,
    Write,
)

STAMP = "nemesis.example.com/write"
"""Annotation by which users mark each of their writes."""


def wall_offset() -> float:
    """Return the seconds from the monotonic clock to that of the wall.

    Between the two readings the process may have to wait for a core; not each time.
    """
    return max(time.time() - time.monotonic() for _ in range(100))


@dataclass(slots=True)
class Recording:
    """Writes in the order of etcd, and what happened to processes."""

    ring: RingName
    namespace: str
    writes: list[Write] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    leases: list[Held] = field(default_factory=list)
    skews: Mapping[str, float] = field(default_factory=dict)
    """By how many seconds the wall clock of a process is off, by the holder of its Lease: the
    name of a shard in the ring, of a sharder that of its process."""
    now: dict[str, Write] = field(default_factory=dict)
    """The last write to each object that is there, by name."""
    children_now: dict[str, Child] = field(default_factory=dict)
    """The same of children, by uid."""
    outages: list[Span] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    leading: list[float] = field(default_factory=list)
    """When the leader renewed its Lease."""
    _offset: float = field(default_factory=wall_offset)
    _leader: str = ""

    async def follow(self, url: str) -> None:
        """Record until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(record(url, f"secrets/{self.namespace}/", self._take_secret))
            group.create_task(record(url, f"configmaps/{self.namespace}/", self._take_child))
            group.create_task(record(url, f"leases/{SHARDS}/", self._take_lease))
            group.create_task(record(url, f"leases/{SYSTEM}/", self._take_leader))

    def happened(self, process: str, kind: Happening) -> None:
        """Note what happens to a process just now."""
        self.events.append(Event(at=time.monotonic(), process=process, kind=kind))

    def trace(
        self,
        *,
        refused: Sequence[Request] = (),
        works: Sequence[Work] = (),
        sent: Sequence[Sent] = (),
        fenced: Sequence[str] = (),
    ) -> Trace:
        """Return all that was seen until now, and what others have seen.

        The audit log goes on while the recording ends: what it has beyond that cannot be judged.
        """
        writes = sorted(self.writes, key=lambda each: each.revision)
        last = writes[-1].revision if writes else 0
        return Trace(
            writes=writes,
            children=sorted(self.children, key=lambda each: each.revision),
            leases=sorted(self.leases, key=lambda each: each.revision),
            events=list(self.events),
            outages=list(self.outages),
            leading=sorted(self.leading),
            refused=list(refused),
            works=works,
            sent=[each for each in sent if each.revision <= last],
            fenced=fenced,
        )

    def apart(self) -> list[str]:
        """Return the children that are not on the shard of their object."""
        owners = {write.uid: write.owner for write in self.now.values()}
        return [
            child.name
            for child in self.children_now.values()
            if child.owner != owners.get(child.parent, child.owner)
        ]

    def last(self) -> list[Write | Child]:
        """Return the last write to each object that is there."""
        return [*self.now.values(), *self.children_now.values()]

    def since(self, revision: int) -> list[Write | Child]:
        """Return the writes after a revision."""
        every: list[Write | Child] = [*self.writes, *self.children]
        return [each for each in every if each.revision > revision]

    def versions(self) -> dict[str, int]:
        """Return the revision of the last write to each object that is there, by uid."""
        return {each.uid: each.revision for each in self.last()}

    def drained_after(self, revision: int) -> frozenset[str]:
        """Return the objects that were asked to move after `revision`."""
        return frozenset(w.name for w in self.writes if w.revision > revision and w.draining)

    def orphans(self) -> list[str]:
        """Return the names of children whose object is gone."""
        there = {write.uid for write in self.now.values()}
        return [c.name for c in self.children_now.values() if c.parent not in there]

    def _take_secret(self, stored: Stored) -> None:
        meta = msgspec.json.decode(stored.value, type=PartialObject).metadata
        write = Write(
            revision=stored.revision,
            at=stored.seen,
            uid=meta.uid,
            name=meta.name,
            owner=meta.label(owner_label(self.ring)),
            draining=meta.has_label(drain_label(self.ring)),
            stamp=meta.annotation(STAMP),
            deleted=stored.deleted,
        )
        self.writes.append(write)
        if stored.deleted:
            self.now.pop(meta.name, None)
        else:
            self.now[meta.name] = write

    def _take_child(self, stored: Stored) -> None:
        meta = msgspec.json.decode(stored.value, type=PartialObject).metadata
        if meta.controller is None:
            return
        child = Child(
            revision=stored.revision,
            at=stored.seen,
            uid=meta.uid,
            name=meta.name,
            parent=meta.controller.uid,
            owner=meta.label(owner_label(self.ring)),
            deleted=stored.deleted,
        )
        self.children.append(child)
        if stored.deleted:
            self.children_now.pop(child.uid, None)
        else:
            self.children_now[child.uid] = child

    def _take_lease(self, stored: Stored) -> None:
        self.leases.append(self._held(stored))

    def _take_leader(self, stored: Stored) -> None:
        # An identity is the name of the process, and what is unique to its start.
        holder = _lease_of(stored).spec.holder_identity or ""
        self._leader = holder.partition("_")[0] or self._leader
        held = self._held(stored)
        if held.holder:
            self.leading.append(held.renewed)

    def _held(self, stored: Stored) -> Held:
        """Return a Lease after a write to it, by the clock of its holder.

        For the sharder that is the clock of the leader; forged Leases have a right one.
        """
        lease = _lease_of(stored)
        holder = lease.spec.holder_identity or ""
        process = self._leader if holder == SHARDER_IDENTITY else holder.partition("_")[0]
        offset = self._offset + self.skews.get(process, 0.0)
        written = parse_time(lease.spec.renew_time) if lease.spec.renew_time else None
        return Held(
            revision=stored.revision,
            at=stored.seen,
            shard=lease.metadata.name,
            holder="" if stored.deleted else holder,
            renewed=stored.seen if stored.deleted or not written else written.timestamp() - offset,
            seconds=float(lease.spec.lease_duration_seconds or 0),
            state=lease.metadata.label(STATE_LABEL),
            deleted=stored.deleted,
        )


@asynccontextmanager
async def recording(url: str) -> AsyncIterator[Recording]:
    """Record what happens on the playground of this etcd, as long as the block lasts."""
    found = Recording(RingName(RING), NAMESPACE)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(found.follow(url))
        yield found
        following.cancel()


def _lease_of(stored: Stored) -> Lease:
    return msgspec.json.decode(stored.value, type=Lease)
