"""The hostile run: phases of attack, each from a quiet start, under the same ordinary load."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil, inf
from pathlib import Path
from typing import Final

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.core.names import LOAD_ANNOTATION, RingName, drain_label, owner_label
from sharder.kube.client import Client, connect
from tests.e2e.replicas import REPLICAS
from tests.history.etcd import Stored, record
from tests.long.hostile.stage import (
    BOUNDED,
    ELSEWHERE,
    LEASE_SECONDS,
    PROCESSES,
    RINGS,
    TENANT,
    USERS,
    Stage,
    stage,
)
from tests.support.eventually import eventually

QUIET: Final = "quiet"
ATTACKS: Final[Mapping[str, Sequence[tuple[str, ...]]]] = {
    QUIET: (),
    "fat leases": [("fat-leases",)],
    "cycled leases": [("cycled-leases",)],
    "16 MiB rings": [("big-rings",)],
    "32 MiB reviews": [("big-reviews",)],
    "connections": [("connections", str(number)) for number in range(len(REPLICAS))],
    "made-up reviews": [("made-up",)],
    "steered": [("steered",)],
    "all at once": [("big-rings",), ("cycled-leases",), ("connections", "0"), ("made-up",)],
}
"""By the name of the phase: attacks at the same time, each with its arguments."""
STANDING: Final = 120
"""Objects of ordinary users that are there all the time."""
CREATES_PER_SECOND: Final = 20.0
CREATE_SECONDS: Final = 30.0
LIGHT: Final = ("cpu=4,memory=1", "cpu=1,memory=4")
"""In turn: wherever they are, no shard is far out of balance, and each can be made so."""
HEAVY: Final = ("cpu=40,memory=10", "cpu=10,memory=40")
"""The same of what is there all the time: without the others they are worth a rebalance."""
REST_SECONDS: Final = 6.0
"""In which nothing is written: longer than the interval of rebalancing."""
LULL_SECONDS: Final = 60.0
TAKEOVER_SECONDS: Final = 2 * LEASE_SECONDS + 4.0
UNOWNED_SHARE: Final = 0.01
SLOWER: Final = 3.0
MAX_MEGABYTES: Final = 200.0


@dataclass(slots=True)
class Row:
    """One phase."""

    name: str
    creates: list[float] = field(default_factory=list)
    """Seconds that each create took."""
    floor: list[float] = field(default_factory=list)
    """The same of creates that no webhook sees."""
    refused: int = 0
    unowned: int = 0
    """Objects that were created without owner."""
    leaders: int = 0
    """How often another sharder became the leader."""
    moved: list[str] = field(default_factory=list)
    """Objects of ordinary users that were drained or given away while all shards lived."""
    takeover: float = 0.0
    """Seconds until a shard that was killed meanwhile had no object any more."""
    megabytes: float = 0.0
    """The most that a sharder has ever needed."""
    ended: list[str] = field(default_factory=list)
    """Shards that lost their Lease, and were started anew, as by a kubelet."""
    rested: bool = True
    told: list[str] = field(default_factory=list)
    """What the attacks say that they have done."""

    def problems(self, quiet: "Row") -> list[str]:
        """Return what is wrong, beside the quiet phase."""
        p99, usual = _p99(self.creates), max(_p99(quiet.creates), _p99(self.floor))
        verdicts = (
            (self.refused > 0, f"{self.refused} creates refused"),
            (self.unowned > UNOWNED_SHARE * len(self.creates), f"{self.unowned} without owner"),
            (p99 > SLOWER * usual, f"p99 of creates {p99:.3f} s"),
            (self.leaders > 0, f"{self.leaders} leaders lost"),
            (bool(self.moved), f"{len(self.moved)} moves, such as {self.moved[:1]}"),
            (self.takeover > TAKEOVER_SECONDS, f"takeover after {self.takeover:.1f} s"),
            (self.megabytes > MAX_MEGABYTES, f"{self.megabytes:.0f} MB"),
            (not self.rested, "no rest after it"),
        )
        return [text for is_wrong, text in verdicts if is_wrong]

    @override
    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self.creates)} creates, {self.unowned} without owner, "
            f"p99 {1000 * _p99(self.creates):.0f} ms, takeover {self.takeover:.1f} s, "
            f"{self.megabytes:.0f} MB, started anew: {len(self.ended)}; {' '.join(self.told)}"
        )


def play(seconds: float, only: Sequence[str] = ()) -> list[Row]:
    """Play phases of so many seconds, the quiet one first; by default all."""
    with stage() as found:
        return asyncio.run(
            _play(found, seconds, [n for n in ATTACKS if n in {*only, QUIET} or not only])
        )


async def _play(found: Stage, seconds: float, names: Sequence[str]) -> list[Row]:
    user = await connect(str(found.playground.author))
    admin = await connect(str(found.plane.admin_kubeconfig))
    run = _Run(found, user, admin)
    try:
        async with asyncio.TaskGroup() as group:
            places = ("secrets/users/", "secrets/tenant/", "leases/sharding-system/sharder")
            url = found.plane.etcd_url
            watching = [group.create_task(record(url, place, run.take)) for place in places]
            watching.append(group.create_task(run.keep_running()))
            await run.begin()
            rows = [await run.phase(name, seconds) for name in names]
            for task in watching:
                task.cancel()
    finally:
        await user.close()
        await admin.close()
    return rows


@dataclass(slots=True)
class _Run:
    """What was seen up to now."""

    stage: Stage
    user: Client
    admin: Client
    """Whose requests never wait for those of others in the API server."""
    row: Row = field(default_factory=lambda: Row(""))
    now: dict[str, dict[str, str]] = field(default_factory=dict)
    """By key of the Secret: its owner in each ring, with `*` while it drains."""
    written: int = 0
    leader: str = ""
    is_calm: bool = False
    """Whether nothing of ordinary users has a reason to move."""
    killed: str = ""
    """The shard that is to stay away for now."""
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def begin(self) -> None:
        """Create what is there all the time, when all shards are there."""
        await eventually(self._are_available, within=LULL_SECONDS)
        await asyncio.sleep(2)  # until the API server calls the webhook
        for _ in range(STANDING):
            await self._create(RINGS[0])
        assert not self.row.refused, "users must be able to create"
        await self._settle()

    async def keep_running(self) -> None:
        """Start shards anew that have ended by themselves, until cancelled."""
        while True:
            for name in PROCESSES:
                code = await asyncio.to_thread(self.stage.playground.exit_code, name)
                if code is not None and name != self.killed:
                    self.row.ended.append(name)
                    self.stage.start_shard(name)
            await asyncio.sleep(0.5)

    async def phase(self, name: str, seconds: float) -> Row:
        """Create while the attacks go on, then kill a shard, and let all come to rest."""
        row = self.row = Row(name)
        standing, labels = set(self.now), list[str]()
        for attack, *more in ATTACKS[name]:
            labels.append(f"{name} {attack} {' '.join(more)}".strip().replace(" ", "-"))
            lasts = seconds + TAKEOVER_SECONDS
            await asyncio.to_thread(self.stage.attack, labels[-1], attack, lasts, *more)
        self.is_calm = True
        await self._create_steadily(seconds)
        self.is_calm = False
        await self._take_over(PROCESSES[len(name) % len(PROCESSES)])
        row.told = [await self.stage.attacked(label) for label in labels]
        row.megabytes = max(_most_memory(self.stage.playground.pid(each)) for each in REPLICAS)
        for kind in ("leases", "secrets"):
            arguments = ("delete", kind, "--all", "-n", TENANT, "--wait=false")
            await asyncio.to_thread(self.stage.plane.kubectl, *arguments)
        for key in self.now.keys() - standing:
            place, _, secret = key.removeprefix("secrets/").partition("/")
            if place == USERS:
                await self.user.request("DELETE", f"/api/v1/namespaces/{USERS}/secrets/{secret}")
        await self._settle()
        return row

    def take(self, stored: Stored) -> None:
        """Note a write to a Secret that rings select, or to the leader's Lease."""
        if stored.key.startswith("leases/"):
            holder = msgspec.json.decode(stored.value, type=Lease).spec.holder_identity or ""
            self.row.leaders += bool(self.leader) and holder != self.leader
            self.leader = holder
            return
        meta = msgspec.json.decode(stored.value, type=PartialObject).metadata
        if meta.name == "kube-root-ca.crt":
            return
        self.written += 1
        before = self.now.pop(stored.key, {})
        if stored.deleted:
            return
        after = self.now[stored.key] = {
            ring: meta.label(owner_label(RingName(ring)))
            + "*" * meta.has_label(drain_label(RingName(ring)))
            for ring in RINGS
        }
        if self.is_calm and meta.namespace == USERS:
            self.row.moved += [
                f"{ring} {meta.name}: {owner} -> {after[ring]}"
                for ring, owner in before.items()
                if owner and owner != after[ring]
            ]

    async def _create_steadily(self, seconds: float) -> None:
        """Create Secrets as ordinary users do; none waits for another, all have ended."""
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            for number in range(int(seconds * CREATES_PER_SECOND)):
                due = began + number / CREATES_PER_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                group.create_task(self._create(RINGS[number % len(RINGS)]))
                if number % 4 == 0:
                    group.create_task(self._create(""))

    async def _create(self, ring: str) -> None:
        """Create one Secret in every ring, which is looked at in one, or else in none."""
        row, number, began = self.row, next(self.numbers), time.monotonic()
        load = (LIGHT if self.is_calm else HEAVY)[number % 2]
        metadata: Json = {"name": f"secret-{number:08}", "annotations": {LOAD_ANNOTATION: load}}
        path = f"/api/v1/namespaces/{USERS if ring else ELSEWHERE}/secrets"
        client = self.user if ring else self.admin
        try:
            body: Json = {"metadata": metadata}
            answer = await client.request("POST", path, body=body, timeout=CREATE_SECONDS)
        except (ApiError, TimeoutError):
            row.refused += 1
            return
        (row.creates if ring else row.floor).append(time.monotonic() - began)
        made = msgspec.json.decode(answer, type=PartialObject).metadata
        row.unowned += bool(ring) and not made.label(owner_label(RingName(ring)))

    async def _take_over(self, victim: str) -> None:
        began, self.killed = time.monotonic(), victim
        await asyncio.to_thread(self.stage.playground.kill, victim)
        self.row.takeover = inf
        with suppress(AssertionError):
            await eventually(lambda: self._has_nothing(victim), within=LULL_SECONDS / 2)
            self.row.takeover = time.monotonic() - began
        self.killed = ""

    async def _has_nothing(self, victim: str) -> bool:
        owners = (owner for of_rings in self.now.values() for owner in of_rings.values())
        return not any(owner.rstrip("*").endswith(f"-{victim}") for owner in owners)

    async def _are_available(self) -> bool:
        """Return whether every process is a shard in every ring that the rings say they have."""
        path = "jsonpath={range .items[*]}{.metadata.name}={.status.availableShards} {end}"
        arguments = ("get", "controllerrings", "-o", path)
        rings = await asyncio.to_thread(self.stage.plane.kubectl, *arguments)
        return {f"{ring}={len(PROCESSES)}" for ring in RINGS} <= set(rings.split())

    async def _settle(self) -> None:
        """Wait until all shards are back, nothing was written for a while, and all has an owner.

        Before a shard is back nothing goes to it, so that nothing is written proves little.
        """

        async def is_at_rest() -> bool:
            complete, written = await self._are_available(), self.written
            await asyncio.sleep(REST_SECONDS)
            states = [owner for of_rings in self.now.values() for owner in of_rings.values()]
            held = Counter(of_rings[BOUNDED] for of_rings in self.now.values())
            is_even = max(held.values()) <= ceil(len(self.now) / len(PROCESSES))
            is_owned = not any(not owner or owner.endswith("*") for owner in states)
            return complete and written == self.written and is_owned and is_even

        try:
            await eventually(is_at_rest, within=LULL_SECONDS)
        except AssertionError:
            self.row.rested = False


def _p99(seconds: Sequence[float]) -> float:
    ordered = sorted(seconds)
    return ordered[ceil(0.99 * len(ordered)) - 1] if ordered else 0.0


def _most_memory(pid: int) -> float:
    """Return how many megabytes a process had in memory at most, 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
