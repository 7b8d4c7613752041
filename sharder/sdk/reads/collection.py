"""One resource and its objects, as a shard reads, writes and watches them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from sharder.core.api.meta import Resource
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import follow
from sharder.sdk.reads.cache import ObjectCache
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.strays import Strays
from sharder.shard.cluster import Documents, OwnObjects
from sharder.shard.objects import OwnObject
from sharder.shard.watched import Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A resource and its objects."""

    resource: Resource
    documents: Documents
    objects: OwnObjects
    watched: Watched[OwnObject]
    """The watch of `objects`."""
    progress: Progress
    """How far the shard's watch of the objects has come."""
    strays: Strays
    cache: ObjectCache | None = None
    """This shard's objects as the watch last showed them; None without a cache."""

    async def read(self, ref: ObjectRef) -> msgspec.Raw:
        """Return the object from the cache, or read it if the cache does not have it."""
        known = None if self.cache is None else await self.cache.get(ref)
        return await self.documents.get(ref) if known is None else known

    async def follow(
        self, *, doing: str, clock: Clock, rng: Rng
    ) -> AsyncGenerator[Listed[OwnObject] | Changed[OwnObject] | Removed[OwnObject], None]:
        """Yield the events of the objects; the cache has applied an event before it is yielded.

        Readers that wait for the watch continue only after the caller has handled the event.

        Raises:
            Moved: the resource is served in another version.
        """
        move = self.progress.move
        events = follow(self.watched, doing=doing, clock=clock, rng=rng, on_bookmark=move)
        async with aclosing(events):
            async for event in events:
                if self.cache is not None:
                    self.cache.update(event)
                move(_version(event))
                yield event


def _version(event: Listed[OwnObject] | Changed[OwnObject] | Removed[OwnObject]) -> str:
    match event:
        case Listed(_, version):
            return version
        case Changed(obj) | Removed(obj):
            return obj.metadata.resource_version
