"""The argument of an author's function: one object, and guarded reads and writes."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import NoReturn, TypeVar, overload

import msgspec
from typing_extensions import deprecated

from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, ConfigError, Conflict, LeaseLost, SharderError
from sharder.core.names import ObjectRef, RingName, ShardName, parse_resource
from sharder.sdk.children import Children
from sharder.sdk.documents import with_condition
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.identity import Ownership
from sharder.shard.objects import Body, Document, OwnMeta, OwnObject, decode, document, guarded

T = TypeVar("T")


class Request:
    """One object that this shard owns, for the duration of one reconcile.

    Writes raise `LeaseLost` or `NotOwned` once the Lease might be lost, the object is draining or
    has left this shard, or the reconcile has ended. Do not catch these errors: the object is
    requeued if necessary. Writes of the object, guarded by the resourceVersion that this request
    last saw, raise `Conflict` if another client has changed it since.
    """

    def __init__(self, meta: OwnMeta, context: ResourceContext) -> None:
        self._ref, self._uid = meta.ref, meta.uid
        self._meta = meta
        self._read: msgspec.Raw | None = None
        """The object as this request last read or wrote it."""
        self._context = context
        self.has_ended = False
        """Whether the reconcile has ended, and with it the permission to act."""
        self.was_refused = False
        """Whether a check has failed, so that a failure of the reconcile is no error."""

    @property
    def ref(self) -> ObjectRef:
        """Namespace (empty for cluster-scoped objects) and name."""
        return self._ref

    @property
    def metadata(self) -> OwnMeta:
        """The object's metadata as this request last saw it, including deletionTimestamp."""
        return self._meta

    @property
    def ring(self) -> RingName:
        """The ring that this shard is on."""
        return self._context.identity.ring

    @property
    def shard(self) -> ShardName:
        """This shard."""
        return self._context.identity.shard

    @overload
    async def get(self) -> Document: ...

    @overload
    async def get(self, shape: type[T]) -> T: ...

    async def get(self, shape: type[T] | None = None) -> T | Document:
        """Read the whole object: from memory if its resource is in `cache`, else from the server.

        The object in memory includes this shard's own writes, and lacks `managedFields`.

        Args:
            shape: A msgspec Struct, dataclass or TypedDict to decode the object as; without one,
                the JSON document is returned.

        Raises:
            NotFound: the object is gone.
            NotOwned: the object is draining, or this shard no longer owns it.
            InvalidObject: the object does not have the shape.
        """
        raw = await self._context.main.read(self._ref)
        self._refresh(raw)
        self.check()
        return document(raw) if shape is None else decode(raw, shape)

    @overload
    async def children(self, resource: str) -> list[Document]: ...

    @overload
    async def children(self, resource: str, shape: type[T]) -> list[T]: ...

    async def children(
        self, resource: str, shape: type[T] | None = None
    ) -> list[T] | list[Document]:
        """Return all children of the object from memory, sorted by namespace and name.

        They include the writes of this shard and of the object's previous shard, and lack
        `managedFields`.

        Args:
            resource: Such as `configmaps`; it must be in the reconciler's `owns` and `cache`.
            shape: As for `get`.

        Raises:
            ConfigError: the resource is not in both `owns` and `cache`.
            NotOwned: the object is draining, or this shard no longer owns it.
            InvalidObject: a child does not have the shape.
        """
        raws = await self._context.cached_children(parse_resource(resource), self._meta)
        self.check()
        if shape is None:
            return [document(raw) for raw in raws]
        return [decode(raw, shape) for raw in raws]

    async def patch(self, body: Body) -> Document:
        """Merge `body` into the object (RFC 7386) and return the result.

        Call `get` first if the write depends on the content of the object.
        """
        return await self._patch(body)

    async def patch_status(self, body: Body) -> Document:
        """Do the same as `patch` to the status subresource; `body` is `{"status": {…}}`."""
        return await self._patch(body, status=True)

    async def set_condition(
        self, kind: str, *, status: bool | None, reason: str, message: str = ""
    ) -> Document:
        """Set a condition in the object's status and return the object.

        Nothing is written if nothing differs. observedGeneration is the generation that this
        request last saw, so call `get` before you evaluate the object.

        Args:
            kind: The type, such as `Ready`.
            status: Whether the condition is true; None means Unknown.
            reason: One CamelCase word.
            message: A sentence.
        """
        generation = self._meta.generation
        seen = await self.get() if self._read is None else document(self._read)
        before = seen.get("status")
        known = before.get("conditions") if isinstance(before, dict) else None
        wanted: dict[str, Json] = {
            "type": kind,
            "status": "Unknown" if status is None else str(status),
            "reason": reason,
            "message": message,
            **({"observedGeneration": generation} if generation else {}),
        }
        conditions = with_condition(known, wanted, now=self._context.shard.clock.now())
        if conditions == known:
            return seen
        return await self.patch_status({"status": {"conditions": conditions}})

    async def add_finalizer(self, name: str) -> None:
        """Add a finalizer to the object, unless the object has it already."""
        if not self._meta.has_finalizer(name):
            await self.patch({"metadata": {"finalizers": [*self._meta.finalizers, name]}})

    async def remove_finalizer(self, name: str) -> None:
        """Remove a finalizer from the object; without finalizers, a deleted object is gone.

        Raises:
            ConfigError: it is the reconciler's own finalizer, and would be added again.
        """
        if name == self._context.reconciler.finalizer and not self._meta.deletion_timestamp:
            raise ConfigError(
                f"the finalizer {name} would be added to {self._ref} again: retire it by a "
                "reconciler without on_delete"
            )
        if self._meta.has_finalizer(name):
            kept = [each for each in self._meta.finalizers if each != name]
            await self.patch({"metadata": {"finalizers": kept}})

    async def delete(self, child: Body | None = None) -> bool:
        """Delete the object or one of its children; return True if it does not exist.

        Returns False after the deletion was sent, and while the object waits for its finalizers.
        The deletion is guarded by the uid and resourceVersion that were read. An object of the
        child's name that this object does not control is left alone, and counts as a child that
        does not exist.

        Args:
            child: Has `kind` and `metadata.name`, as for `ensure`.

        Raises:
            NotOwned: this shard does not own the object or the child.
            Conflict: another client has changed the object or the child since it was read.
            ConfigError: the child's resource is not in `owns`.
        """
        if child is not None:
            return await self._children.delete(child)
        return await self._write(lambda: self._context.main.delete(self._meta))

    async def ensure(
        self, body: Body, *, replace: Collection[str] = (), adopt: bool = False
    ) -> Document:
        """Create or update a child of the object, and return the child.

        The child gets this shard's owner label and a controller reference to the object. Fields
        that `body` does not name stay; nothing is written if nothing differs.

        Args:
            body: Has `kind` and `metadata.name`; its resource must be in the reconciler's `owns`.
                None removes a field (not on creation).
            replace: Fields, such as `data`, whose other keys are removed.
            adopt: Whether to control an existing object that has no controller.

        Raises:
            NameTaken: an object of that name exists, and this object does not control it.
            NotOwned: this shard does not own the object or the child.
            Conflict: another client has created or changed the child at the same time.
            ConfigError: the resource is not in `owns`.
        """
        return await self._children.ensure(body, replace=replace, adopt=adopt)

    @deprecated("use ensure")
    async def apply(self, body: Body, *, replace: Collection[str] = ()) -> Document:
        """Call `ensure`, the new name of this method."""
        return await self.ensure(body, replace=replace)

    async def event(self, reason: str, note: str, *, warning: bool = False) -> None:
        """Record an Event on the object, as `kubectl describe` shows it.

        An equal Event is recorded again after ten minutes at the earliest. A rejected Event is
        only logged.

        Args:
            reason: One CamelCase word.
            note: A sentence of at most 1,024 characters. Each different note is a new Event, so
                put no times or numbers into it.
            warning: Whether it is a Warning.
        """
        self.check()
        await self._context.record(self._meta, reason, note, warning=warning)

    def check(self) -> None:
        """Raise `LeaseLost` or `NotOwned` unless this shard can act on the object now."""
        if not self._context.holds_lease():
            self._refuse(LeaseLost, "must not act: its Lease was not renewed")
        if self.has_ended:
            self._refuse(NotOwned, "must not act: the reconcile has ended")
        for meta in (self._context.owned.get(self._ref), self._meta):
            self._require_ours(meta)

    def _require_ours(self, meta: OwnMeta | None) -> None:
        """Raise `NotOwned` unless `meta` is a state in which this shard owns the object."""
        if meta is None or meta.uid != self._uid:
            self._refuse(NotOwned, "no longer has it, or it was deleted")
        if self._context.identity.ownership_of(meta) is not Ownership.OURS:
            self._refuse(NotOwned, "does not own it, or has to release it")

    def _refuse(self, error: type[SharderError], why: str) -> NoReturn:
        self.was_refused = True
        raise error(f"{self._ref}: shard {self.shard} {why}")

    @property
    def _children(self) -> Children:
        return Children(self._context, self._meta, self.check)

    async def _patch(self, body: Body, *, status: bool = False) -> Document:
        patch, main = guarded(body, self._meta), self._context.main
        raw = await self._write(lambda: main.patch(self._ref, patch, status=status))
        self._refresh(raw)
        return document(raw)

    async def _write(self, send: Callable[[], Awaitable[T]]) -> T:
        """Write the object; a conflict with a drain is `NotOwned`, also if the watch is late."""
        self.check()
        try:
            return await send()
        except Conflict:
            with suppress(ApiError):
                now = await self._context.main.documents.get(self._ref)
                self._require_ours(decode(now, OwnObject).metadata)
            raise

    def _refresh(self, raw: msgspec.Raw) -> None:
        """Store the object that was read, or that answered a write."""
        self._meta = decode(raw, OwnObject).metadata
        self._read = raw
