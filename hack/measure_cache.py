"""What an object costs in the memory of a shard in Python: by metadata, and as a whole.

`python -m hack.measure_cache` prints a table.  Each figure comes from a process of its own, which
decodes objects as the API server writes them and keeps them as `sharder.sdk` does.  Linux only.
"""

import gc
import json
import subprocess
import sys
from typing import Final

import msgspec

from hack.bench.process import Size, size_of
from hack.bench.secrets_ring import stored
from sharder.core.names import RingName, ShardName
from sharder.ports import Changed
from sharder.runtime.clock import SystemClock
from sharder.sdk.reads.cache import ObjectCache, whole
from sharder.sdk.reads.objects import OwnObject
from sharder.sdk.reads.owned import Identity, OwnedObjects
from sharder.sdk.reads.progress import Progress

OBJECTS: Final = 20_000
CASES: Final = (0, 100, 1000, 10_000)
"""Bytes of data of each object."""


def written(number: int, data: int) -> bytes:
    """Return a Secret as the API server writes it, with so many bytes of data."""
    tree = stored(number, 3, group=20, namespaces=100)
    return json.dumps({**tree, "data": {"key": "a" * data}}).encode()


def keep(mode: str, data: int, objects: int) -> Size:
    """Return the size of this process when it keeps so many objects."""
    owned = OwnedObjects(Identity(ring=RingName("demo"), shard=ShardName("a")))
    cache = ObjectCache(Progress(SystemClock()))
    for number in range(objects):
        raw = written(number, data)
        if mode == "whole":
            obj = whole(raw, api_version="v1", kind="Secret")
            cache.update(Changed(obj))
            owned.update(obj)
        else:
            owned.update(msgspec.json.decode(raw, type=OwnObject))
    gc.collect()
    return size_of()


def measured(mode: str, data: int, objects: int) -> int:
    """Return how many bytes a process of its own has that keeps so many objects."""
    done = subprocess.run(
        [sys.executable, "-m", "hack.measure_cache", mode, str(data), str(objects)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


def show() -> None:
    """Print the table."""
    print(f"Bytes of memory per object, from {OBJECTS:,} Secrets of a shard.\n")
    print("| Data of each | JSON of each | Metadata | Whole |\n|---|---|---|---|")
    for data in CASES:
        each = [
            (measured(mode, data, OBJECTS) - measured(mode, data, 0)) / OBJECTS
            for mode in ("metadata", "whole")
        ]
        json_size = len(written(0, data))
        print(f"| {data:,} | {json_size:,} | {each[0]:,.0f} | {each[1]:,.0f} |", flush=True)


def main() -> None:
    """Print the table; with arguments, the size of one process."""
    if len(sys.argv) == 1:
        show()
        return
    mode, data, objects = sys.argv[1:]
    print(keep(mode, int(data), int(objects)).resident)


if __name__ == "__main__":
    main()
