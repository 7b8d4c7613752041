"""The CPU time and memory of processes.  Linux only."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROCESS_CLOCK: Final = 2
"""CPUCLOCK_SCHED of a whole process (linux/posix-timers.h)."""


@dataclass(frozen=True, slots=True)
class Size:
    """The memory of a process, in bytes."""

    resident: int
    peak: int


def size_of(pid: int | None = None) -> Size:
    """Return the current and peak memory of a process, by default of this process."""
    # proc_pid_status(5), in kB
    lines = Path(f"/proc/{pid or 'self'}/status").read_text().splitlines()
    fields = {name: text for name, _, text in (line.partition(":") for line in lines)}
    resident, peak = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return Size(resident, peak)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


class Meter:
    """The CPU time of some processes since the meter was created."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        """Start to measure; `pids` has the processes by their names in the report."""
        self._pids = pids
        self._before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        self._began = time.monotonic()

    def per(self, operations: int) -> dict[str, float]:
        """Return the microseconds of CPU time that each process has used per operation."""
        return {
            f"{name} CPU, µs": (cpu_seconds(pid) - self._before[name]) / operations * 1e6
            for name, pid in self._pids.items()
        }

    def seconds(self) -> dict[str, float]:
        """Return the seconds of CPU time that each process has used."""
        return {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}

    def cores(self) -> dict[str, float]:
        """Return the share of a core that each process has used."""
        seconds = time.monotonic() - self._began
        return {
            f"{name}, cores": (cpu_seconds(pid) - self._before[name]) / seconds
            for name, pid in self._pids.items()
        }
