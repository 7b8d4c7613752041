"""What the shards have logged of their work.

The example controller logs when it begins to work on an object and when it has ended, with the
monotonic clock, which all processes of a machine share.  A process that is stopped where it
stands counts as at work until it goes on and says that it has ended.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from math import inf
from pathlib import Path

import msgspec

from tests.history.traces import Work


class _Line(msgspec.Struct, frozen=True):
    message: str
    monotonic: float
    process: int
    ring: str = ""
    shard: str = ""
    resource: str = ""
    object: str = ""


def works_in(directory: Path, *, killed: Collection[str] = ()) -> Iterator[Work]:
    """Yield all work that logs show.

    Args:
        directory: Where the logs of the shards are, `*.log`; those of others may be there too.
        killed: Shards whose processes had no chance to say that their work has ended, and were
            not started again: it has ended with the last that they have logged.
    """
    for file in sorted(directory.glob("*.log")):
        yield from _work_in(list(_lines(file)), killed)


def _lines(file: Path) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(_Line)
    with file.open("rb") as log:
        for line in log:
            if b'"monotonic"' in line:
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError:
                    continue  # cut off, by a kill or because it is just being written


def _work_in(lines: list[_Line], killed: Collection[str]) -> Iterator[Work]:
    """Yield the work of the processes that have logged to one file, one after the other."""
    last_words = {line.process: line.monotonic for line in lines}
    begun: defaultdict[tuple[int, str], list[_Line]] = defaultdict(list)
    for line in lines:
        key = (line.process, f"{line.ring} {line.resource} {line.object}")
        if line.message == "reconcile started":
            begun[key].append(line)
        elif line.message == "reconcile ended" and begun[key]:
            yield _work(begun[key].pop(0), line.monotonic)
    for (process, _), open_ones in begun.items():
        for line in open_ones:
            is_dead = process != lines[-1].process or line.shard in killed
            yield _work(line, last_words[process] if is_dead else inf)


def _work(line: _Line, ended: float) -> Work:
    name = f"{line.ring} {line.resource} {line.object}"
    return Work(object=name, shard=line.shard, began=line.monotonic, ended=ended)
