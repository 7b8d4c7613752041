"""Facts about long loops in slices."""

import asyncio

from typing_extensions import override

from sharder.runtime.slices import in_slices
from sharder.sdk.testing.clock import FakeClock


class SlowMachine(FakeClock):
    """A quarter of a second goes by from each look at the clock to the next."""

    @override
    def monotonic(self) -> float:
        self._elapsed += 0.25
        return self._elapsed


async def test_other_tasks_run_after_each_slice_and_not_within_one() -> None:
    done, seen = list[int](), set[int]()

    async def work() -> None:
        async for number in in_slices(range(6), seconds=0.5, clock=SlowMachine()):
            done.append(number)

    task = asyncio.create_task(work())
    while not task.done():
        await asyncio.sleep(0)
        seen.add(len(done))

    assert done == list(range(6))
    assert seen == {2, 4, 6}
