"""What a nemesis run leaves behind, as etcd has it."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf

import msgspec

from hack.playground import SHARDS
from sharder.core.api.lease import Lease
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.leases.state import is_held
from sharder.core.names import RingName, drain_label, owner_label
from tests.long.etcd_history import Stored, record
from tests.long.nemesis.traces import Child, Held, Span, Write
from tests.long.worker import WRITER

STAMP = "nemesis.example.com/write"
"""Annotation by which users mark each of their writes."""


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


@dataclass(slots=True)
class Recording:
    """Writes in the order of etcd, and when processes were away."""

    ring: RingName
    namespace: str
    writes: list[Write] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    leases: list[Held] = field(default_factory=list)
    now: dict[str, Write] = field(default_factory=dict)
    """The last write to each object that is there, by name."""
    outages: list[Span] = field(default_factory=list)
    _downs: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def follow(self, url: str) -> None:
        """Record until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(record(url, f"secrets/{self.namespace}/", self._take_secret))
            group.create_task(record(url, f"configmaps/{self.namespace}/", self._take_child))
            group.create_task(record(url, f"leases/{SHARDS}/", self._take_lease))

    def went(self, shard: str, at: float) -> None:
        """Note that a shard's process works no more."""
        self._downs[shard].append(at)

    def downs(self) -> dict[str, list[Span]]:
        """Return when each shard was away: until it wrote its Lease again."""
        return {
            shard: [Span(begin=at, end=self._next_held(shard, at)) for at in times]
            for shard, times in self._downs.items()
        }

    def _next_held(self, shard: str, at: float) -> float:
        times = (each.at for each in self.leases if each.shard == shard and each.is_held)
        # What was on its way when the process ended arrives a little later.
        return min((time for time in times if time > at + 0.1), default=inf)

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
        lease = msgspec.json.decode(stored.value, type=Lease)
        held = is_held(lease) and not stored.deleted
        name = lease.metadata.name
        self.leases.append(
            Held(revision=stored.revision, at=stored.seen, shard=name, is_held=held)
        )
