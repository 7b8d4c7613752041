"""A collection that a shard watches: how well that works, and whether it is still served.

If the API server does not know the path, the resource is discovered again: if its CRD serves it in
another version, the process ends without releasing its Lease, and starts anew with it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Generic, TypeAlias, TypeVar

from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, Expired, LeaseLost, NotFound
from sharder.core.names import GroupResource
from sharder.ports import Listed, Watchable, WatchEvent
from sharder.runtime.clock import Clock

Find: TypeAlias = Callable[[GroupResource], Awaitable[Resource]]
"""Discovers a resource now; `NotFound` if the API server does not serve it."""

T = TypeVar("T")


class Watched(Generic[T]):
    """A collection to list and to watch; both raise `LeaseLost` if its version has changed."""

    def __init__(
        self, inner: Watchable[T], resource: Resource, find: Find, *, clock: Clock
    ) -> None:
        self._inner = inner
        self._resource = resource
        self._find = find
        self._clock = clock
        self._error: ApiError | None = None
        """Why the watch does not work; None before the first failure, and while it works."""
        self._failing = 0.0, 0.0
        """When (monotonic seconds) the first and the last failure in a row were seen."""
        self._standing: float | None = None
        """Since when (monotonic seconds) the watch works."""

    def problem(self, seconds: float) -> str:
        """Return why the watch has failed for `seconds`; empty if it has not.

        A list that takes long is no failure.
        """
        first, last = self._failing
        if self._error is None or last - first < seconds:
            return ""
        return f"cannot watch {self._resource.id}: {self._error}"

    def stands(self, seconds: float) -> bool:
        """Return whether the watch has worked for `seconds`."""
        now = self._clock.monotonic()
        return self._standing is not None and now - self._standing >= seconds

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return all objects, or only objects for which `keep` is True."""
        try:
            return await self._inner.list(keep)
        except ApiError as error:
            await self._failed(error)
            raise

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events after `resource_version`, the first when the watch is established."""
        try:
            async with aclosing(self._inner.watch(resource_version)) as events:
                async for event in events:
                    if self._standing is None:
                        self._standing, self._error = self._clock.monotonic(), None
                    yield event
        except Expired as error:
            # Usual after an interruption; but a list must lead to a watch that works.
            if self._standing is None:
                await self._failed(error)
            self._standing = None
            raise
        except ApiError as error:
            await self._failed(error)
            raise

    async def _failed(self, error: ApiError) -> None:
        now = self._clock.monotonic()
        if self._error is None:
            self._failing = now, now
        self._failing = self._failing[0], now
        self._error, self._standing = error, None
        if isinstance(error, NotFound | Expired):
            await self._look_up()

    async def _look_up(self) -> None:
        try:
            found = await self._find(self._resource.id)
        except ApiError:
            return  # it is not served, or this is unknown
        if found.version != self._resource.version:
            raise LeaseLost(f"{found.id} is served as {found.version} now: start again")
