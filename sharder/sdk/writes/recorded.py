"""Record this shard's writes, so that reads of its cache can wait until the watch shows them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk.reads.cache import ObjectCache
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.strays import Strays
from sharder.shard.cluster import Documents

_OBJECTS = msgspec.json.Decoder(PartialObject)


class RecordedDocuments:
    """Whole objects of one resource; each write is noted, also a write without an answer."""

    def __init__(
        self,
        inner: Documents,
        progress: Progress,
        strays: Strays,
        cache: ObjectCache | None,
    ) -> None:
        self._inner = inner
        self._progress = progress
        self._strays = strays
        self._cache = cache

    async def get(self, ref: ObjectRef) -> msgspec.Raw:
        """Read the object from the API server (a quorum read)."""
        return await self._inner.get(ref)

    async def create(self, namespace: str, body: Json) -> msgspec.Raw:
        """Create an object; `Conflict` if the name is taken."""
        with self._doubted_without_answer():
            answer = await self._inner.create(namespace, body)
        self._note(answer)
        return answer

    async def patch(self, ref: ObjectRef, body: Json) -> msgspec.Raw:
        """Merge `body` into the object, guarded by its `metadata.resourceVersion`."""
        with self._doubted_without_answer():
            answer = await self._inner.patch(ref, body)
        self._note(answer)
        return answer

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete the object; `Conflict` if it has another uid or resourceVersion."""
        with self._doubted_without_answer():
            await self._inner.delete(ref, uid=uid, resource_version=resource_version)
        if self._cache is not None:
            self._cache.deleted(ref, resource_version)

    def _note(self, answer: msgspec.Raw) -> None:
        written = _OBJECTS.decode(answer).metadata
        if not self._strays.notes(written):
            self._progress.wrote(written)

    @contextmanager
    def _doubted_without_answer(self) -> Iterator[None]:
        try:
            yield
        except (Unavailable, asyncio.CancelledError):
            self._progress.doubt()
            raise
