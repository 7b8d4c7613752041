"""How long the event loop is blocked in large clusters: by many rings, namespaces or shards.

One process builds a cache, its metrics and a leader with the real code; only the cluster behind
the ports is a fake.  Then something changes every second, and a task that ticks every millisecond
measures the work between two ticks.
"""

# ruff: noqa: ASYNC110, D102, S311 - a measurement polls; the ports document their methods
import asyncio
import gc
import json
import logging
import random
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Final

import msgspec
from msgspec import structs
from prometheus_client import CollectorRegistry
from typing_extensions import override

from hack.bench.row import Goal, Limit, Row, Sample, Scale, Values
from hack.bench.still_cluster import Empty, Leases, Source, Statuses
from sharder.console.memory import Memory
from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.leader import AlwaysLeader, Leader
from sharder.controllers.leader_ports import LeaderPorts
from sharder.controllers.ring_gauges import Gauges
from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import ControllerRing, RingResource, RingSpec
from sharder.core.api.selector import LabelSelector
from sharder.core.leases.state import ShardState
from sharder.core.names import RING_LABEL, STATE_LABEL
from sharder.core.webhook_configuration import Endpoint, Registration
from sharder.metrics.registry import Metrics
from sharder.ports import Changed, Removed
from sharder.runtime.child_process import in_child
from sharder.runtime.clock import SystemClock
from sharder.runtime.memory import settled

LONGEST, OFTEN = "longest block, ms", "blocks of over 10 ms"
START, CHANGES = "start", "changes"


@dataclass(frozen=True)
class Size:
    """The size of a cluster."""

    rings: int
    namespaces: int
    shards: int
    """The number of shards of each ring."""

    @override
    def __str__(self) -> str:
        return f"{self.rings} x {self.namespaces} x {self.shards}"


SIZES: Final = (Size(1, 10, 1_000), Size(1_000, 1_000, 1), Size(10, 10_000, 3))


class Ticks:
    """Records the work between two ticks of a millisecond.

    The work is the CPU time of the loop's thread, so that other work on the machine does not
    count.
    """

    def __init__(self) -> None:
        self.late: list[float] = []

    async def run(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            self.late.append(time.thread_time() - before)


def _ring(number: int) -> ControllerRing:
    name = f"ring-{number}"
    meta = ObjectMeta(name=name, uid=name, generation=1, resource_version="1")
    return ControllerRing(
        metadata=meta, spec=RingSpec(resources=(RingResource(resource="secrets"),))
    )


def _lease(ring: int, shard: str) -> Lease:
    now = format_time(datetime.now(UTC))
    return Lease(
        metadata=ObjectMeta(
            name=shard, namespace="default", uid=shard, creation_timestamp=now[:19] + "Z",
            labels={RING_LABEL: f"ring-{ring}", STATE_LABEL: ShardState.READY},
        ),
        spec=LeaseSpec(
            holder_identity=shard, lease_duration_seconds=3600,
            acquire_time=now, renew_time=now,
        ),
    )  # fmt: skip


def _renewed(lease: Lease) -> Lease:
    now = format_time(datetime.now(UTC))
    return structs.replace(lease, spec=structs.replace(lease.spec, renew_time=now))


def _namespace(name: str) -> PartialObject:
    meta = ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name})
    return PartialObject(api_version="v1", kind="Namespace", metadata=meta)


class Bench:
    """A cluster of some size, a cache that watches it, and a leader."""

    def __init__(self, size: Size, settling: float, changing: float) -> None:
        """Measure `settling` seconds after the start, and then `changing` seconds of changes."""
        self._size, self._settling, self._changing = size, settling, changing
        self._clock, rng = SystemClock(), random.Random(0)
        self._shards = [
            _lease(ring, f"shard-{ring}-{shard}-7f8d9c6b5")
            for ring in range(size.rings)
            for shard in range(size.shards)
        ]
        objects = Empty()
        self._rings = Source([_ring(number) for number in range(size.rings)])
        self._leases = Leases(self._shards)
        self._namespaces = Source([_namespace(f"ns-{n}") for n in range(size.namespaces)])
        self.cache = ClusterCache(
            objects=objects, clock=self._clock, rng=rng, default_namespaces=LabelSelector(),
            excluded=frozenset({"kube-system"}), custom={},
        )  # fmt: skip
        metrics = Metrics(CollectorRegistry(), version="1", shard_states=list(ShardState))
        self._gauges = Gauges(self.cache, metrics, self._clock)
        registration = Registration(
            endpoint=Endpoint(url="https://localhost"), default_namespaces=LabelSelector(),
            excluded=frozenset(), sharders=frozenset(),
        )  # fmt: skip
        ports = LeaderPorts(
            cache=self.cache, objects=objects, leases=self._leases, ring_status=Statuses(),
            configurations=objects, validations=objects, fences=objects,
            registration=lambda: registration,
            recorder=objects, metrics=metrics, journal=Memory(self._clock),
            annotation_warnings=AnnotationWarnings(objects, self._clock),
            holder=AlwaysLeader(self._clock), compute=in_child("sharder.core.rebalance"),
            clock=self._clock, rng=rng, limit=100,
            sync_period=300.0,
        )  # fmt: skip
        self._leader = Leader(ports)

    async def run(self) -> tuple[Ticks, Ticks]:
        """Return the ticks of the start, and the ticks during the changes."""
        start, churn = Ticks(), Ticks()
        gc.disable()  # as the service does
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(start.run())
            with self.cache.subscribed(self._gauges.subscriber()):
                following = group.create_task(
                    self.cache.run(
                        rings=self._rings, leases=self._leases, namespaces=self._namespaces
                    )
                )
                while self.cache.not_synced():
                    await asyncio.sleep(0.05)
                leading = group.create_task(self._leader.campaign(lambda _: None))
                await asyncio.sleep(self._settling)
                settled()
                ticking.cancel()
                ticking = group.create_task(churn.run())
                await self._change()
                ticking.cancel()
                for task in (leading, following):
                    task.cancel()
        return start, churn

    async def _change(self) -> None:
        """Add or remove a namespace and a shard every second; other shards renew their Leases."""
        began = time.monotonic()
        for number in count():
            if time.monotonic() - began > self._changing:
                return
            namespace, another = _namespace("another"), _lease(0, "another-shard")
            come = number % 2 == 0
            space = Changed(namespace) if come else Removed(namespace)
            self._namespaces.events.put_nowait(space)
            if self._size.shards > 100:
                self._leases.events.put_nowait(Changed(another) if come else Removed(another))
            for _ in range(10):
                for lease in random.sample(self._shards, -(-len(self._shards) // 100)):
                    self._leases.events.put_nowait(Changed(_renewed(lease)))
                await asyncio.sleep(0.1)


async def samples(scale: Scale) -> AsyncIterator[Sample]:
    """Measure each size in a new process."""
    seconds = scale.of((8.0, 15.0), (0.5, 1.0))
    for size in scale.of(SIZES, (Size(3, 10, 10),)):
        for _ in range(scale.of(2, 1)):
            for case, values in (await measured(size, seconds)).items():
                yield Sample(f"{size}, {case}", 0, values)


async def measured(size: Size, seconds: tuple[float, float]) -> dict[str, Values]:
    """Return the values of the start and of the changes, measured in a new process."""
    arguments = map(str, (size.rings, size.namespaces, size.shards, *seconds))
    command = (sys.executable, "-m", __name__, *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    printed, _ = await process.communicate()
    return {**msgspec.json.decode(printed, type=dict[str, dict[str, float]])}


def values_of(ticks: Ticks) -> Values:
    """Return the longest block, and the number of long blocks."""
    return {LONGEST: max(ticks.late) * 1e3, OFTEN: sum(late > 0.01 for late in ticks.late)}


ROW: Final = Row(
    name="loop",
    what="How long one turn of the event loop takes, in CPU time, in clusters of so many rings x "
    "namespaces x shards of each ring: while all is read at the start, and while shards and "
    "namespaces come and go.",
    samples=samples,
    goals=[
        Goal(case=f"{size}, {case}", column=LONGEST, limit=Limit(50))
        for size in SIZES
        for case in (START, CHANGES)
    ],
)


def main(rings: int, namespaces: int, shards: int, *seconds: float) -> None:
    """Print the values of one cluster."""
    logging.disable(logging.CRITICAL)
    start, churn = asyncio.run(Bench(Size(rings, namespaces, shards), *seconds).run())
    print(json.dumps({START: values_of(start), CHANGES: values_of(churn)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *map(float, sys.argv[4:]))
