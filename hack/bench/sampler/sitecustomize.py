"""Sample where a process spends its CPU time; Python imports this module if PYTHONPATH has it.

`hack.bench.profile` selects the processes, and reads the files that they write when they end: one
line for each stack, with its frames separated by semicolons and its number of samples.
"""

import atexit
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY_SECONDS = 0.002
"""CPU time between two samples."""

_stacks = Counter[str]()


def _sample(_number: int, frame: FrameType | None) -> None:
    names = list[str]()
    while frame is not None:
        names.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    _stacks[";".join(reversed(names))] += 1


def _write() -> None:
    file = Path(os.environ["BENCH_PROFILE"], f"{os.getpid()}.folded")
    file.write_text("".join(f"{stack} {seen}\n" for stack, seen in _stacks.items()))


if {"hack.bench.target", "run"} & set(sys.orig_argv) and "BENCH_PROFILE" in os.environ:
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)
    atexit.register(_write)
