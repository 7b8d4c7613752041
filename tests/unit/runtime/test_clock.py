"""Facts about the machine's own clocks."""

import time

import pytest

from sharder.runtime.clock import SystemClock

HOUR = 3600


def test_monotonic_time_counts_from_the_start_of_the_machine() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    told = SystemClock().monotonic()

    assert before <= told <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_monotonic_time_counts_while_a_machine_is_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, read = SystemClock(), time.clock_gettime
    before = clock.monotonic()

    def slept(which: int) -> float:
        return read(which) + (HOUR if which == time.CLOCK_BOOTTIME else 0)

    monkeypatch.setattr(time, "clock_gettime", slept)

    assert clock.monotonic() - before >= HOUR
