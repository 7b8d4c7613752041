"""Run calls concurrently: many writes, up to a limit, or until the first has ended."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a TaskGroup whose first failure, of a task or in the body, is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failures:
        first: Exception = failures
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from failures


async def race(*calls: Coroutine[object, None, object]) -> tuple[bool, ...]:
    """Run the calls until one has ended, and cancel the others; return which have ended.

    The first error of a call is raised.
    """
    async with task_group() as group:
        tasks = [group.create_task(call) for call in calls]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return tuple(not task.cancelled() for task in tasks)


async def finishing(work: Callable[[], Coroutine[None, None, object]], seconds: float) -> None:
    """Do `work`; if we are cancelled, it has so many seconds more to end."""
    async with task_group() as group:
        task = group.create_task(work())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=seconds)
            raise


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
    async with task_group() as group:
        yield Batch(group, limit)
