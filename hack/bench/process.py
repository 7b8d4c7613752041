"""The CPU time and memory of processes.  Linux only."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PROCESS_CLOCK: Final = 2
"""CPUCLOCK_SCHED of a whole process (linux/posix-timers.h)."""


def resident(pid: int) -> float:
    """Return the current memory of a process, in MB."""
    # proc_pid_status(5), in kB
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


class Meter:
    """The CPU time of some processes since the meter was created."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        """Start to measure; `pids` has the processes by their names in the report."""
        self._pids = pids
        self._before = {name: cpu_seconds(pid) for name, pid in pids.items()}

    def seconds(self) -> dict[str, float]:
        """Return the seconds of CPU time that each process has used."""
        return {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}

    def per(self, operations: int) -> dict[str, float]:
        """Return the microseconds of CPU time that each process has used per operation."""
        return {f"{name} CPU, µs": s / operations * 1e6 for name, s in self.seconds().items()}
