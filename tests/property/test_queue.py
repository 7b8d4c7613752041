"""The promises of `sharder.runtime.workqueue`, whatever is added and however often."""

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.runtime.backoff import Backoff
from sharder.runtime.workqueue import WorkQueue
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng

HOURS = 36_000.0
additions = st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 60.0, HOURS]))
pauses = st.sampled_from([0.1, 1.0, 90.0])


async def play(steps: list[tuple[str, float] | float]) -> None:
    """Add keys and let time pass, with workers that ask to look again in hours."""
    clock = FakeClock()
    queue = WorkQueue[str](clock=clock, rng=FixedRng(), backoff=Backoff(base=2, cap=300))
    asked, done = Counter[str](), Counter[str]()

    async def look(key: str) -> float:
        done[key] += 1
        return HOURS

    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(look, concurrency=2))
        for step in steps:
            if isinstance(step, float):
                await clock.advance(step)
            else:
                queue.add_after(*step)
                asked[step[0]] += 1
                assert len(queue._order) <= 2 * len(queue._due) + 16
        await clock.advance(HOURS)
        assert done.keys() == asked.keys()
        assert len(queue._order) <= 2 * len(queue._due) + 16
        task.cancel()


@settings(deadline=None)
@given(st.lists(additions | pauses, max_size=20), st.integers(1, 8))
def test_what_a_queue_keeps_is_bounded_by_the_keys_that_wait_and_no_key_is_lost(
    steps: list[tuple[str, float] | float], times: int
) -> None:
    asyncio.run(play(steps * times))
