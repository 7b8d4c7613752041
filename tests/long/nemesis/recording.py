"""What a nemesis run leaves behind, as etcd has it."""

import asyncio
import time
from dataclasses import dataclass, field

import msgspec

from hack.playground import SHARDS, SYSTEM
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import STATE_LABEL, RingName, drain_label, owner_label
from tests.long.etcd_history import Stored, record
from tests.long.nemesis.traces import Child, Event, Happening, Held, Span, Write
from tests.long.worker import WRITER

STAMP = "nemesis.example.com/write"
"""Annotation by which users mark each of their writes."""


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


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
    now: dict[str, Write] = field(default_factory=dict)
    """The last write to each object that is there, by name."""
    outages: list[Span] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    leading: list[float] = field(default_factory=list)
    """When the leader renewed its Lease."""
    _offset: float = field(default_factory=wall_offset)

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
        child = msgspec.json.decode(stored.value, type=_ConfigMap)
        parent = child.metadata.controller
        if parent is not None:
            self.children.append(
                Child(
                    revision=stored.revision,
                    uid=child.metadata.uid,
                    name=child.metadata.name,
                    parent=parent.uid,
                    writer=(child.data or {}).get(WRITER, ""),
                    deleted=stored.deleted,
                )
            )

    def _take_lease(self, stored: Stored) -> None:
        self.leases.append(held_of(stored, offset=self._offset))

    def _take_leader(self, stored: Stored) -> None:
        held = held_of(stored, offset=self._offset)
        if held.holder:
            self.leading.append(held.renewed)


def held_of(stored: Stored, *, offset: float) -> Held:
    """Return a Lease after a write to it.

    Args:
        stored: The write.
        offset: As of `wall_offset`; all processes are of one machine, so it is that of each.
    """
    lease = msgspec.json.decode(stored.value, type=Lease)
    written = parse_time(lease.spec.renew_time) if lease.spec.renew_time else None
    return Held(
        revision=stored.revision,
        at=stored.seen,
        shard=lease.metadata.name,
        holder="" if stored.deleted else lease.spec.holder_identity or "",
        renewed=stored.seen if stored.deleted or not written else written.timestamp() - offset,
        state=lease.metadata.label(STATE_LABEL),
    )
