"""Run many writes concurrently, up to a limit."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager


class Batch:
    """Starts work concurrently, up to the limit."""

    def __init__(self, group: asyncio.TaskGroup, limit: int) -> None:
        self._group = group
        self._room = asyncio.Semaphore(limit)

    async def add(self, work: Coroutine[None, None, object]) -> None:
        """Start `work` as soon as there is a free slot."""
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            work.close()
            raise
        task = self._group.create_task(work)
        task.add_done_callback(lambda _: self._room.release())


@asynccontextmanager
async def batch(limit: int) -> AsyncIterator[Batch]:
    """Run the added work concurrently, up to `limit`, and wait for all of it at the end.

    The first failure, of the work or in the body, cancels the rest and is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield Batch(group, limit)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
