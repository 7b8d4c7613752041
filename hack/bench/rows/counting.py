"""What a tally costs: the resident size of a process that counts 0, 10,000 and 100,000 objects.

`python -m hack.measure_tally` prints a table.  Each figure comes from a process of its own, which
decodes pages of metadata as the API server writes them and counts what is in them.  Linux only.
"""

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from hack.secrets_ring import RING, SECRETS, built
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec, StrategyName
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import ShardName, owner_label
from sharder.core.placement.tally import Tally
from sharder.core.ring.snapshot import RingSnapshot

SIZES: Final = (0, 10_000, 100_000)
CASES: Final = (
    (StrategyName.BOUNDED_LOAD, 3),
    (StrategyName.BOUNDED_LOAD, 100),
    (StrategyName.SPREAD, 3),
    (StrategyName.SPREAD, 100),
)
"""Strategies and numbers of shards; few objects of a group are on one of 100 shards."""

GOAL: Final = 200
"""Bytes per object."""

PAGE: Final = 500
GROUP: Final = 20
NAMESPACES: Final = 100


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]


def snapshot_of(strategy: StrategyName, shards: int) -> RingSnapshot:
    """Return a ring over Secrets, with so many shards."""
    group_by = GroupBy(labels=("app",)) if strategy is StrategyName.SPREAD else GroupBy()
    names = [ShardName(f"my-operator-{number}") for number in range(shards)]
    return built(
        PlacementSpec(strategy=strategy, group_by=group_by),
        Members(
            standings=dict.fromkeys(names, Standing.AVAILABLE),
            stranger=Standing.GONE,
            namespaces=dict.fromkeys(names, "default"),
        ),
        frozenset(f"team-{number}" for number in range(NAMESPACES)),
    )


def pages(objects: int, shards: int) -> Iterator[bytes]:
    """Yield pages of metadata of so many Secrets, in groups of 20 of one namespace and label."""
    found = (secret(number, shards) for number in range(objects))
    while page := list(islice(found, PAGE)):
        yield json.dumps({"kind": "PartialObjectMetadataList", "items": page}).encode()


def secret(number: int, shards: int) -> Json:
    """Return the metadata of a Secret, as much of it as operators usually write."""
    group = number // GROUP
    labels = {
        "app": f"app-{group}",
        "app.kubernetes.io/managed-by": "Helm",
        owner_label(RING): f"my-operator-{(number * 7 + group) % shards}",
    }
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": f"secret-{number:06}",
            "namespace": f"team-{group % NAMESPACES}",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "labels": labels,
            "managedFields": [
                {
                    "manager": "helm",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-03-01T12:00:00Z",
                    "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}},
                }
            ],
        },
    }


async def listed(objects: int, shards: int, keep: Callable[[PartialObject], bool]) -> None:
    """Decode pages one after the other, as `sharder.kube.store` does for `keep`."""
    for page in pages(objects, shards):
        for raw in msgspec.json.decode(page, type=_List).items:
            keep(msgspec.json.decode(raw, type=PartialObject))


async def count(snapshot: RingSnapshot, tally: Tally, objects: int) -> None:
    """Count so many objects as `sharder.controllers.counting.tally_watch` does with a list."""

    def see(obj: PartialObject) -> bool:
        if snapshot.selects(obj):
            tally.see(SECRETS, snapshot.identity_of(obj), snapshot.entry_of(obj))
        return False

    await listed(objects, len(snapshot.members.standings), see)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a process, in bytes."""

    resident: int
    peak: int


def size() -> Size:
    """Return how large this process is and has been (proc_pid_status(5), in kB)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {name: text for name, _, text in (line.partition(":") for line in lines)}
    resident, peak = (int(found[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return Size(resident, peak)


def grown(strategy: StrategyName, shards: int, objects: int) -> Size:
    """Return the size of this process when it has counted the objects."""
    snapshot = snapshot_of(strategy, shards)
    assert snapshot.tally is not None  # noqa: S101 - these strategies count
    # What the first page brings along is the same for all sizes.
    asyncio.run(count(snapshot, Tally(), PAGE))
    asyncio.run(count(snapshot, snapshot.tally, objects))
    gc.collect()
    return size()


def measured(strategy: StrategyName, shards: int, objects: int) -> Size:
    """Return the same of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "hack.measure_tally", strategy, str(shards), str(objects)],
        check=True,
        capture_output=True,
        text=True,
    )
    resident, peak = map(int, done.stdout.split())
    return Size(resident, peak)


def show() -> None:
    """Print the table."""
    print(f"Resident size by objects, and bytes per object, which are to be at most {GOAL}.\n")
    columns = ["Strategy", "Shards", *(f"{size:,}" for size in SIZES), "Per object", "Peak"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for strategy, shards in CASES:
        sizes = [measured(strategy, shards, objects) for objects in SIZES]
        each = (sizes[-1].resident - sizes[0].resident) / SIZES[-1]
        peak = (sizes[-1].peak - sizes[0].peak) / SIZES[-1]
        resident = [f"{size.resident / 1e6:.1f} MB" for size in sizes]
        cells = [f"`{strategy}`", str(shards), *resident, f"{each:.0f}", f"{peak:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table; with arguments, the size of one process."""
    if len(sys.argv) == 1:
        show()
        return
    strategy, shards, objects = sys.argv[1:]
    found = grown(StrategyName(strategy), int(shards), int(objects))
    print(found.resident, found.peak)


if __name__ == "__main__":
    main()
