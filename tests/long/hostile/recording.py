"""Everything that is measured while the hostile run goes on."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

import msgspec

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.core.names import LOAD_ANNOTATION, RingName, drain_label, owner_label
from sharder.kube.client import Client
from tests.e2e.replicas import REPLICAS
from tests.long.etcd_history import Stored, record
from tests.long.hostile.judging import Create, Death, Record, Span, Write
from tests.long.hostile.stage import (
    BOUNDED,
    BUSY,
    ELSEWHERE,
    LEASE_SECONDS,
    PROCESSES,
    RINGS,
    TENANT,
    USERS,
    Stage,
)

CREATES_PER_SECOND: Final = 20.0
FLOOR_PER_SECOND: Final = 5.0
"""Creates that no webhook sees, to compare with."""
CREATE_SECONDS: Final = 30.0
SAMPLE_SECONDS: Final = 0.5
STEERED: Final = "steered"
LIGHT: Final = ("cpu=4,memory=1", "cpu=1,memory=4")
"""In turn: wherever they are, no shard is far out of balance, and each can be made so."""
HEAVY: Final = ("cpu=40,memory=10", "cpu=10,memory=40")
"""The same in the namespace at rest: without the others they are worth a rebalance."""


@dataclass(slots=True)
class Recording:
    """What was seen up to now."""

    stage: Stage
    client: Client
    """Of an ordinary user."""
    admin: Client
    """Whose requests never wait for those of others in the API server."""
    creates: list[Create] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    now: dict[tuple[str, str], dict[str, Write]] = field(default_factory=dict)
    """By namespace and name of the Secret: what it is to each ring."""
    deaths: list[Death] = field(default_factory=list)
    leaders: list[float] = field(default_factory=list)
    megabytes: list[tuple[float, str, float]] = field(default_factory=list)
    phases: list[Span] = field(default_factory=list)
    _leader: str = ""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def finished(self, capacity: int) -> Record:
        """Return all of it, to be judged."""
        return Record(
            phases=self.phases,
            creates=self.creates,
            writes=self.writes,
            deaths=self.deaths,
            leaders=self.leaders,
            megabytes=self.megabytes,
            lease_seconds=LEASE_SECONDS,
            processes=len(PROCESSES),
            capacity=capacity,
            ordinary=frozenset({USERS, BUSY}),
            steered=STEERED,
        )

    async def follow_secrets(self) -> None:
        """Record all that befalls Secrets that rings select, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for place in (USERS, BUSY, TENANT):
                url = self.stage.plane.etcd_url
                group.create_task(record(url, f"secrets/{place}/", self._take_secret))

    async def follow_leader(self) -> None:
        """Record when the leader's Lease changes hands, until cancelled."""
        place = "leases/sharding-system/sharder"
        await record(self.stage.plane.etcd_url, place, self._take_lease)

    async def sample_memory(self) -> None:
        """Record the memory of all sharders, until cancelled."""
        while True:
            for name in REPLICAS:
                megabytes = resident(self.stage.playground.pid(name))
                self.megabytes.append((time.monotonic(), name, megabytes))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def create_steadily(self, seconds: float) -> None:
        """Create Secrets as ordinary users do; none waits for another, all have ended."""
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            floor = CREATES_PER_SECOND / FLOOR_PER_SECOND
            for number in range(int(seconds * CREATES_PER_SECOND)):
                due = began + number / CREATES_PER_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                group.create_task(self.create(RINGS[number % len(RINGS)]))
                if number % floor == 0:
                    group.create_task(self.create(""))

    async def create(self, ring: str, place: str = BUSY) -> None:
        """Create one Secret in every ring; it is looked at in one of them."""
        number, began = next(self._numbers), time.monotonic()
        name = f"secret-{number:08}"
        path = f"/api/v1/namespaces/{place if ring else ELSEWHERE}/secrets"
        loads = HEAVY if place == USERS else LIGHT
        load = {LOAD_ANNOTATION: loads[number % len(loads)]}
        body: Json = {"metadata": {"name": name, "annotations": load}}
        status, owner = 201, ""
        client = self.client if ring else self.admin
        try:
            answer = await client.request("POST", path, body=body, timeout=CREATE_SECONDS)
            made = msgspec.json.decode(answer, type=PartialObject)
            owner = made.metadata.label(owner_label(RingName(ring))) if ring else ""
        except (ApiError, TimeoutError):
            status = 0
        seconds = time.monotonic() - began
        self.creates.append(
            Create(ring=ring, name=name, at=began, seconds=seconds, status=status, owner=owner)
        )

    async def sweep(self) -> None:
        """Delete what ordinary users have created, but for what is in the namespace at rest."""
        names = [name for place, name in self.now if place == BUSY]
        room = asyncio.Semaphore(20)

        async def delete(name: str) -> None:
            async with room:
                await self.client.request("DELETE", f"/api/v1/namespaces/{BUSY}/secrets/{name}")

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(delete(name))

    def unsettled(self) -> Sequence[str]:
        """Return what is without a living owner in a ring, draining, or beyond its ceiling."""
        away = {f"{ring}-{process}" for ring in RINGS for process in self.stage.down}
        held = Counter(states[BOUNDED].owner for states in self.now.values())
        share = ceil(len(self.now) / len(PROCESSES))
        away |= {owner for owner, many in held.items() if many > share}
        return [
            f"{w.ring} {w.namespace}/{w.name} {w.owner} {w.draining}"
            for states in self.now.values()
            for w in states.values()
            if not w.owner or w.draining or w.owner in away
        ]

    def _take_secret(self, stored: Stored) -> None:
        obj = msgspec.json.decode(stored.value, type=PartialObject)
        meta = obj.metadata
        if meta.name == "kube-root-ca.crt":
            return
        states = {
            ring: Write(
                ring=ring,
                namespace=meta.namespace,
                name=meta.name,
                owner=meta.label(owner_label(RingName(ring))),
                draining=meta.has_label(drain_label(RingName(ring))),
                deleted=stored.deleted,
                at=stored.seen,
            )
            for ring in RINGS
        }
        self.writes.extend(states.values())
        if stored.deleted:
            self.now.pop((meta.namespace, meta.name), None)
        else:
            self.now[meta.namespace, meta.name] = states

    def _take_lease(self, stored: Stored) -> None:
        lease = msgspec.json.decode(stored.value, type=Lease)
        holder = lease.spec.holder_identity or ""
        if self._leader and holder != self._leader:
            self.leaders.append(stored.seen)
        self._leader = holder


def resident(pid: int) -> float:
    """Return how many megabytes a process has in memory, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(sizes[0]) / 1024 if sizes else 0.0
