"""Facts about memory that is returned to the system."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharder.runtime import memory
from sharder.runtime.memory import TRIM_SECONDS, keep_trimmed, settle_soon, settled, trim
from sharder.sdk.testing.fake_clock import FakeClock

BLOCK = 8 * 1024
"""Too small for glibc to map it by itself, too large for Python's own allocator."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_memory_between_live_blocks_is_returned() -> None:
    blocks = [bytes(BLOCK) for _ in range(10_000)]
    alive = blocks[::100]
    del blocks
    before = resident_bytes()

    trim()

    assert before - resident_bytes() > 10_000 * BLOCK // 3
    assert len(alive) == 100


async def test_the_heap_is_trimmed_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, times = FakeClock(), list[float]()
    monkeypatch.setattr(memory, "trim", lambda: times.append(clock.monotonic()))
    begin = clock.monotonic()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(keep_trimmed(clock))
        await clock.advance(3 * TRIM_SECONDS + 1)
        task.cancel()

    assert times == [pytest.approx(begin + n * TRIM_SECONDS) for n in (1, 2, 3)]


@pytest.fixture
def collections() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("collections")
async def test_what_a_new_leader_creates_is_never_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "SETTLE_SECONDS", 0.01)
    frozen = gc.get_freeze_count()

    settle_soon()
    paused = not gc.isenabled()
    await asyncio.sleep(0.05)

    assert paused
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


@pytest.mark.usefixtures("collections")
def test_collections_go_on_once_a_replica_has_synced() -> None:
    gc.disable()

    settled()

    assert gc.isenabled()
