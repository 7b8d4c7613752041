"""The cost of counting: the memory of a process that counts objects."""

import asyncio
import gc
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from hack.bench.process import Size, size_of
from hack.bench.row import Goal, Limit, Row, Sample, Scale
from hack.bench.secrets_ring import SECRETS, snapshot_of, stored
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import StrategyName
from sharder.core.placement.counting.tally import Tally
from sharder.core.ring.snapshot import RingSnapshot

CASES: Final = (
    (StrategyName.BOUNDED_LOAD, 3),
    (StrategyName.BOUNDED_LOAD, 100),
    (StrategyName.SPREAD, 3),
    (StrategyName.SPREAD, 100),
)
"""Strategies and numbers of shards; with 100 shards, each shard has few objects of a group."""

EACH: Final = "memory per object, bytes"
PAGE: Final = 500
GROUP: Final = 20
NAMESPACES: Final = 100


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]


async def samples(scale: Scale) -> AsyncIterator[Sample]:
    """Measure new processes that count objects."""
    for strategy, shards in CASES:
        empty = await measured(strategy, shards, 0)
        for objects in scale.sizes(10_000, 100_000):
            full = await measured(strategy, shards, objects)
            values = {
                EACH: (full.resident - empty.resident) / objects,
                "at its peak, bytes": (full.peak - empty.peak) / objects,
            }
            yield Sample(f"{strategy}, {shards} shards", objects, values)


async def measured(strategy: StrategyName, shards: int, objects: int) -> Size:
    """Return the size of a new process that has counted this number of objects."""
    command = (sys.executable, "-m", __name__, strategy, str(shards), str(objects))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    printed, _ = await process.communicate()
    resident, peak = map(int, printed.split())
    return Size(resident, peak)


def grown(strategy: StrategyName, shards: int, objects: int) -> Size:
    """Return the size of this process after it has counted this number of objects."""
    namespaces = frozenset(f"team-{number}" for number in range(NAMESPACES))
    snapshot = snapshot_of(strategy, shards, namespaces)
    assert snapshot.tally is not None  # noqa: S101 - these strategies count
    # Count one page first, so that the memory of the first page is included for all sizes.
    asyncio.run(count(snapshot, Tally(), PAGE))
    asyncio.run(count(snapshot, snapshot.tally, objects))
    gc.collect()
    return size_of()


async def count(snapshot: RingSnapshot, tally: Tally, objects: int) -> None:
    """Count objects as `sharder.controllers.counting.tally_watch` counts a list."""

    def see(obj: PartialObject) -> bool:
        if snapshot.selects(obj):
            tally.see(SECRETS, snapshot.identity_of(obj), snapshot.entry_of(obj))
        return False

    await listed(objects, len(snapshot.members.standings), see)


async def listed(objects: int, shards: int, keep: Callable[[PartialObject], bool]) -> None:
    """Decode pages one after the other, as `sharder.kube.store` does for `keep`."""
    for page in pages(objects, shards):
        for raw in msgspec.json.decode(page, type=_List).items:
            keep(msgspec.json.decode(raw, type=PartialObject))


def pages(objects: int, shards: int) -> Iterator[bytes]:
    """Yield pages with the metadata of this number of Secrets."""
    secrets = (
        stored(number, shards, group=GROUP, namespaces=NAMESPACES) for number in range(objects)
    )
    while page := list(islice(secrets, PAGE)):
        yield json.dumps({"kind": "PartialObjectMetadataList", "items": page}).encode()


ROW: Final = Row(
    name="tally",
    what="Resident size of a process per object that it counts, beyond its size without objects; "
    f"Spread has groups of {GROUP}.",
    samples=samples,
    goals=[
        Goal(case=f"{name}, {shards} shards", size=100_000, column=EACH, limit=Limit(200))
        for name, shards in CASES
    ],
)


if __name__ == "__main__":
    _, strategy_name, shards_text, objects_text = sys.argv
    size = grown(StrategyName(strategy_name), int(shards_text), int(objects_text))
    print(size.resident, size.peak)
