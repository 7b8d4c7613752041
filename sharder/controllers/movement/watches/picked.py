"""A collection whose lists keep a part of each object.

A list of the unassigned objects of a new ring can have all objects of the cluster.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from sharder.ports import Listed, Watchable, WatchEvent
from sharder.runtime.reflector import closing

T = TypeVar("T")


class Picked(Generic[T]):
    """Lists what `pick` returns of each object, page by page; watches everything."""

    def __init__(self, inner: Watchable[T], pick: Callable[[T], T | None]) -> None:
        """`pick` returns what to keep of a listed object, None to skip it."""
        self._inner = inner
        self._pick = pick

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return what was picked of all objects, or of those for which `keep` holds."""
        picked = list[T]()

        def visit(obj: T) -> bool:
            if keep is None or keep(obj):
                part = self._pick(obj)
                if part is not None:
                    picked.append(part)
            return False

        listed = await self._inner.list(visit)
        return Listed(picked, listed.resource_version)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events as they are."""
        async with closing(self._inner.watch(resource_version)) as events:
            async for event in events:
                yield event
