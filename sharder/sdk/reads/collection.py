"""One resource and its objects, as a shard reads, writes and watches them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.errors import NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import follow
from sharder.sdk.reads.cache import ObjectCache
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.strays import Strays
from sharder.shard.cluster import Documents, OwnObjects
from sharder.shard.objects import OwnObject, decode
from sharder.shard.watched import Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A resource and its objects; each write is noted, also a write without an answer."""

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

    async def create(self, namespace: str, body: Json) -> msgspec.Raw:
        """Create an object; `Conflict` if the name is taken."""
        with self._doubted_without_answer():
            answer = await self.documents.create(namespace, body)
        return self._noted(answer)

    async def patch(self, ref: ObjectRef, body: Json, *, status: bool = False) -> msgspec.Raw:
        """Merge `body` into the object or its status, guarded by `metadata.resourceVersion`."""
        documents = self.documents.status() if status else self.documents
        with self._doubted_without_answer():
            answer = await documents.patch(ref, body)
        return self._noted(answer)

    async def delete(self, meta: ObjectMeta) -> bool:
        """Delete an object, guarded by the uid and resourceVersion of `meta`; True if it is gone.

        Returns False after the deletion was sent.  If the object is being deleted already, nothing
        is sent, and False is returned too.
        """
        if meta.deletion_timestamp is not None:
            return False
        ref, version = meta.ref, meta.resource_version
        try:
            with self._doubted_without_answer():
                await self.documents.delete(ref, uid=meta.uid, resource_version=version)
        except NotFound:
            return True
        if self.cache is not None:
            self.cache.deleted(ref, version)
        return False

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

    def _noted(self, answer: msgspec.Raw) -> msgspec.Raw:
        """Note a write, so that reads of the cache wait until the watch shows it."""
        written = decode(answer, PartialObject).metadata
        if not self.strays.notes(written):
            self.progress.wrote(written)
        return answer

    @contextmanager
    def _doubted_without_answer(self) -> Iterator[None]:
        try:
            yield
        except (Unavailable, asyncio.CancelledError):
            self.progress.doubt()
            raise


def _version(event: Listed[OwnObject] | Changed[OwnObject] | Removed[OwnObject]) -> str:
    match event:
        case Listed(_, version):
            return version
        case Changed(obj) | Removed(obj):
            return obj.metadata.resource_version
