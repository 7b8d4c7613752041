"""Follow a collection and keep its position, and its cache if it has one, up to date."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from sharder.core.api.meta import PartialObject
from sharder.ports import Changed, Listed, Removed, Watchable
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import follow
from sharder.sdk.workplace import Collected

T = TypeVar("T", bound=PartialObject)


async def feed(
    source: Watchable[T], collected: Collected, *, doing: str, clock: Clock, rng: Rng
) -> AsyncGenerator[Listed[T] | Changed[T] | Removed[T], None]:
    """Yield what `follow` does; each event is in the cache when it is yielded.

    Those who wait for the position run after the caller has handled the event.
    """
    progress, cache = collected.progress, collected.cache
    events = follow(source, doing=doing, clock=clock, rng=rng, on_bookmark=progress.move)
    async with aclosing(events):
        async for event in events:
            if cache is not None:
                cache.update(event)
            progress.move(_version(event))
            yield event


def _version(event: Listed[T] | Changed[T] | Removed[T]) -> str:
    match event:
        case Listed(_, version):
            return version
        case Changed(obj) | Removed(obj):
            return obj.metadata.resource_version
