"""The memory of an object in a shard in Python: of its metadata, and of the whole object.

`python -m hack.measure_cache` prints a table.  Each figure comes from a separate process, which
decodes objects in the API server's JSON and keeps them as `sharder.sdk` does.  Linux only.
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
from sharder.sdk.reads.cache import ObjectCache
from sharder.sdk.reads.owned import OwnedObjects
from sharder.sdk.reads.progress import Progress
from sharder.shard.identity import Identity
from sharder.shard.objects import OwnObject, whole

OBJECTS: Final = 20_000
CASES: Final = (0, 100, 1000, 10_000)
"""Bytes of data in each object, one row of the table for each number."""


def written(number: int, data: int) -> bytes:
    """Return the JSON of a Secret in the form of the API server, with `data` bytes of data."""
    tree = stored(number, 3, group=20, namespaces=100)
    return json.dumps({**tree, "data": {"key": "a" * data}}).encode()


def keep(mode: str, data: int, objects: int) -> Size:
    """Keep `objects` Secrets with `data` bytes each; return the size of this process."""
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
    """Return the resident bytes of a new process that keeps `objects` Secrets, see `keep`."""
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
    """Print the table; with arguments, keep objects and print the size of this process."""
    if len(sys.argv) == 1:
        show()
        return
    mode, data, objects = sys.argv[1:]
    print(keep(mode, int(data), int(objects)).resident)


if __name__ == "__main__":
    main()
