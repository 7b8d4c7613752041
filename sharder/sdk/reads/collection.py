"""The resources of a shard and their objects, as it reads, writes and watches them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from itertools import count

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.errors import NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Event, Listed, Removed
from sharder.sdk.reads.cache import ObjectCache, Progress, is_reached
from sharder.shard.cluster import OwnObjects
from sharder.shard.context import ShardContext
from sharder.shard.identity import Ownership
from sharder.shard.objects import OwnObject, decode
from sharder.shard.watched import Watched


class Collected:
    """A resource and its objects; each write is noted, also a write without an answer."""

    def __init__(
        self,
        resource: Resource,
        context: ShardContext,
        *,
        keep: Callable[[PartialObject], bool] | None = None,
    ) -> None:
        """Keep the objects for which `keep` is True in memory, or without it only read them."""
        cluster = context.cluster
        self.resource = resource
        self.documents = cluster.documents(resource)
        self.progress = Progress(context.clock)
        """How far the shard's watch of the objects has come."""
        self.cache = ObjectCache(self.progress, keep) if keep else None
        selector = context.identity.selector
        self._now = context.objects(resource)
        objects: OwnObjects = cluster.whole(resource, selector) if keep else self._now
        self.watched = Watched(objects, resource, context)
        self.doubts = 0
        """How many writes had no answer, so that they might have happened at any version."""
        self._context = context

    async def read(self, ref: ObjectRef) -> msgspec.Raw:
        """Return the object from the cache, or read it if the cache does not have it."""
        known = None if self.cache is None else await self.cache.get(ref)
        return await self.documents.get(ref) if known is None else known

    async def reread(self, ref: ObjectRef) -> msgspec.Raw:
        """Read an object that this shard has created; if it has it, reads of the cache wait."""
        return self._noted(await self.documents.get(ref))

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
            self.cache.deleted(meta)
        return False

    async def follow(self, doing: str) -> AsyncGenerator[Event[OwnObject], None]:
        """Yield the events of the objects; the cache has applied an event before it is yielded.

        Readers that wait for the watch continue only after the caller has handled the event.
        """
        move = self.progress.move
        async with aclosing(self.watched.follow(doing, on_bookmark=move)) as events:
            async for event in events:
                if self.cache is not None:
                    self.cache.update(event)
                match event:
                    case Listed(_, version):
                        move(version)
                    case Changed(obj) | Removed(obj):
                        move(obj.metadata.resource_version)
                yield event

    async def catch_up(self) -> None:
        """List the objects now, and return when the cache has everything that the list shows."""
        last = ""

        def note(obj: PartialObject) -> bool:
            nonlocal last
            if not is_reached(last, obj.metadata.resource_version):
                last = obj.metadata.resource_version
            return False

        await self._now.list(note)
        await self.progress.until(last)

    def _noted(self, answer: msgspec.Raw) -> msgspec.Raw:
        """Note a write, so that reads of the cache wait until the watch shows it."""
        written = decode(answer, PartialObject).metadata
        if self._context.identity.ownership_of(written) is not Ownership.ELSEWHERE:
            self.progress.wrote(written.resource_version)
        return answer

    @contextmanager
    def _doubted_without_answer(self) -> Iterator[None]:
        try:
            yield
        except (Unavailable, asyncio.CancelledError):
            self.doubts += 1
            raise


class Handoff:
    """Reconcile an object that arrives only after the caches of this shard have its children.

    The sharder assigns the children of an object to its new shard first, and then the object
    itself (docs/protocol.md, "What moves first").  So a list of children that begins after the
    object has arrived shows all children that the previous shard has created.  When the watch has
    reached the newest version in this list, the cache has these children too.
    """

    def __init__(self, children: Iterable[Collected]) -> None:
        self._children = [each for each in children if each.cache]
        self._arrivals: dict[ObjectRef, int] = {}
        self._serial = count()
        self._doubts = 0
        """How many writes without an answer the last list has shown, or shown not to be."""
        self._lock = asyncio.Lock()

    def arrived(self, ref: ObjectRef) -> None:
        """Note that the object has arrived at this shard, or might have left and returned."""
        if self._children:
            self._arrivals[ref] = next(self._serial)

    def left(self, ref: ObjectRef) -> None:
        """Note that the object has left this shard."""
        self._arrivals.pop(ref, None)

    def is_settled(self, ref: ObjectRef) -> bool:
        """Return whether the caches have all children of the object."""
        return ref not in self._arrivals and self._doubts == self._count_doubts()

    async def settle(self, ref: ObjectRef) -> None:
        """Return when the caches have all children that the object had when it arrived.

        The caches then also have the results of writes that had no answer.  One list of each
        resource serves all objects that arrived before the list began.

        Raises:
            ApiError: a list failed, or a watch has not reached the list in time.
        """
        while not self.is_settled(ref):
            async with self._lock:
                if not self.is_settled(ref):
                    await self._list()

    async def _list(self) -> None:
        arrivals, doubts = dict(self._arrivals), self._count_doubts()
        for each in self._children:
            await each.catch_up()
        for arrived, serial in arrivals.items():
            if self._arrivals.get(arrived) == serial:
                del self._arrivals[arrived]
        self._doubts = doubts

    def _count_doubts(self) -> int:
        return sum(each.doubts for each in self._children)
