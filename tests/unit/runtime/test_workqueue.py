"""Facts about `sharder.runtime.workqueue`."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from sharder.core.errors import Conflict, InvalidObject, Unavailable
from sharder.runtime.backoff import Backoff
from sharder.runtime.workqueue import WorkQueue
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng, settle

DOWN = Unavailable("connection refused")


class Work:
    """A queue with two workers; `results` says what a look at a key gives, in order."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue(
            clock=self.clock, rng=FixedRng(), backoff=Backoff(base=2, cap=300)
        )
        self.begun: list[tuple[float, str]] = []
        self.results: dict[str, list[float | Exception | Callable[[], None]]] = {}
        self.gates: dict[str, asyncio.Event] = {}

    async def look(self, key: str) -> float | None:
        self.begun.append((self.clock.monotonic(), key))
        if key in self.gates:
            await self.gates[key].wait()
        result = self.results[key].pop(0) if self.results.get(key) else None
        if isinstance(result, Exception):
            raise result
        if callable(result):
            result()
            return None
        return result

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.begun]

    @property
    def keys(self) -> list[str]:
        return [key for _, key in self.begun]


@pytest.fixture
async def work() -> AsyncIterator[Work]:
    work = Work()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work.queue.run(work.look, concurrency=2))
        yield work
        task.cancel()


async def test_a_key_in_work_is_looked_at_again_only_afterwards(work: Work) -> None:
    work.gates["a"] = asyncio.Event()
    work.queue.add("a")
    await settle()
    work.queue.add("a")
    work.queue.add("a")
    await settle()
    in_work = list(work.keys)

    work.gates["a"].set()
    await settle()

    assert in_work == ["a"]
    assert work.keys == ["a", "a"]


@pytest.mark.parametrize("error", [DOWN, Conflict("lost"), InvalidObject("what is this")])
async def test_failures_are_retried_with_growing_delays(work: Work, error: Exception) -> None:
    work.results["a"] = [error] * 4
    work.queue.add("a")

    await work.clock.advance(100)

    waits = [later - earlier for earlier, later in zip(work.times, work.times[1:], strict=False)]
    assert len(waits) == 4
    assert all(
        whole / 2 <= wait <= whole for wait, whole in zip(waits, (2, 4, 8, 16), strict=True)
    )


async def test_an_unexpected_error_ends_the_run_and_loses_no_key() -> None:
    work = Work()
    work.results["a"] = [ValueError("a bug")]
    work.gates["b"] = asyncio.Event()
    work.queue.add("a")
    work.queue.add("b")
    with pytest.raises(ExceptionGroup, match="unhandled"):
        await work.queue.run(work.look, concurrency=2)
    work.gates["b"].set()

    async with asyncio.TaskGroup() as group:
        again = group.create_task(work.queue.run(work.look, concurrency=2))
        await work.clock.advance(10)
        again.cancel()

    assert sorted(work.keys) == ["a", "a", "b", "b"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(r.getMessage(), vars(r)["error"]) for r in caplog.records if r.levelname == "WARNING"]


async def test_an_error_is_reported_once_until_it_is_another_one(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.results["a"] = [DOWN, DOWN, Unavailable("no route"), Unavailable("no route")]

    work.queue.add("a")
    await work.clock.advance(60)

    assert len(work.begun) == 5
    assert warnings(caplog) == [
        ("reconcile failed, will retry", "connection refused"),
        ("reconcile failed, will retry", "no route"),
    ]
