"""The cost of counting: the memory that a tally of objects allocates."""

import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import Final

from hack.bench.row import Goal, Limit, Row, Sample, Scale
from hack.bench.secrets_ring import GROUP, RING, SECRETS, snapshot_of
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import StrategyName
from sharder.core.names import owner_label

CASES: Final = (
    (StrategyName.BOUNDED_LOAD, 3),
    (StrategyName.BOUNDED_LOAD, 100),
    (StrategyName.SPREAD, 3),
    (StrategyName.SPREAD, 100),
)
"""Strategies and numbers of shards; with 100 shards, each shard has few objects of a group."""

EACH: Final = "memory per object, bytes"


async def samples(scale: Scale) -> AsyncIterator[Sample]:
    """Count the objects of rings, in the order of the cases."""
    for strategy, shards in CASES:
        for objects in scale.sizes(10_000, 100_000):
            allocated = counted(strategy, shards, objects)
            yield Sample(f"{strategy}, {shards} shards", objects, {EACH: allocated / objects})


def counted(strategy: StrategyName, shards: int, objects: int) -> int:
    """Return the bytes that a tally allocates for this number of objects."""
    snapshot = snapshot_of(strategy, shards)
    assert snapshot.tally is not None  # noqa: S101 - these strategies count
    gc.collect()
    tracemalloc.start()
    for number in range(objects):
        obj = stored(number, shards)
        snapshot.tally.see(SECRETS, snapshot.identity_of(obj), snapshot.entry_of(obj))
    gc.collect()
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return allocated


def stored(number: int, shards: int) -> PartialObject:
    """Return a Secret that a shard owns."""
    app = number // GROUP
    labels = {
        "app": f"app-{app}",
        owner_label(RING): f"my-operator-{(number * 7 + app) % shards:04}",
    }
    meta = ObjectMeta(name=f"secret-{number:06}", namespace="default", labels=labels)
    return PartialObject(api_version="v1", kind="Secret", metadata=meta)


ROW: Final = Row(
    name="tally",
    what=f"The memory that a tally allocates; Spread has groups of {GROUP}.",
    samples=samples,
    goals=[
        Goal(case=f"{name}, {shards} shards", size=100_000, column=EACH, limit=Limit(200))
        for name, shards in CASES
    ],
)
