"""Follow a collection by lists alone where there is no right to watch it."""

from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from sharder.clock import Clock
from sharder.errors import Forbidden
from sharder.ports import Bookmark, Listed, Watchable, WatchEvent
from sharder.runtime.watch import closing

POLL_SECONDS = 30.0
"""Between two lists (docs/protocol.md, "Fewer rights")."""

HURRY_SECONDS = 1.1
"""The same while something is expected; longer than a watch that counts as broken."""

T = TypeVar("T")


class Polled(Generic[T]):
    """The collection itself as long as it may be watched, else lists of it.

    The right is asked for again before each list, so that a watch begins as soon as it is granted.
    """

    def __init__(
        self,
        inner: Watchable[T],
        *,
        clock: Clock,
        told: Callable[[Forbidden | None], None],
        hurries: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wire it.

        Args:
            inner: The collection.
            clock: To wait by.
            told: Is told each refusal to watch, and None with each event of a watch.
            hurries: Tells whether something is expected, so that the next list is not put off.
        """
        self._hurries = hurries
        self._inner = inner
        self._clock = clock
        self._told = told

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return all objects, or those for which `keep` holds."""
        return await self._inner.list(keep)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield what happens; without the right to watch wait, and then ask for a new list."""
        try:
            async with closing(self._inner.watch(resource_version)) as events:
                async for event in events:
                    self._told(None)
                    yield event
        except Forbidden as error:
            self._told(error)
            await self._wait()
            yield Bookmark("")

    async def _wait(self) -> None:
        until = self._clock.monotonic() + POLL_SECONDS
        while (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(HURRY_SECONDS, left))
            if self._hurries():
                return
