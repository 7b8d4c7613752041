"""The argument of an author's function: one object, and guarded reads and writes."""

from collections.abc import Collection
from typing import TypeVar, overload

import msgspec
from typing_extensions import deprecated

from sharder.core.api.meta import PartialObject
from sharder.core.errors import LeaseLost
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.sdk.reads.collection import Documents, parse_resource
from sharder.sdk.reads.objects import Body, Document, OwnMeta, OwnObject, decode, document, guarded
from sharder.sdk.reads.owned import NotOwned, Ownership
from sharder.sdk.workplace import Workplace
from sharder.sdk.writes.child_writes import ChildWriter, delete_seen
from sharder.sdk.writes.children import api_version
from sharder.sdk.writes.conditions import with_condition

T = TypeVar("T")


class Request:
    """One object that this shard owns, for the duration of one reconcile.

    It names the object to reconcile, not what happened to it.  Writes are refused (`LeaseLost`,
    `NotOwned`) once the Lease might be lost, the object is draining or has left this shard, or the
    reconcile has ended.  Do not catch these errors: the object is requeued if necessary.
    """

    def __init__(self, ref: ObjectRef, meta: OwnMeta, workplace: Workplace) -> None:
        self._ref = ref
        self._meta = meta
        self._read: msgspec.Raw | None = None
        """The object as this request has read or written it last."""
        self._workplace = workplace
        self._children = ChildWriter(workplace, self.check)
        self._is_open = True

    @property
    def ref(self) -> ObjectRef:
        """Namespace (empty for cluster-scoped objects) and name."""
        return self._ref

    @property
    def metadata(self) -> OwnMeta:
        """The object's metadata as this request saw it last, deletionTimestamp included."""
        return self._meta

    @property
    def ring(self) -> RingName:
        """The ring that this shard is on."""
        return self._workplace.identity.ring

    @property
    def shard(self) -> ShardName:
        """This shard."""
        return self._workplace.identity.shard

    @overload
    async def get(self, *, fresh: bool = ...) -> Document: ...

    @overload
    async def get(self, shape: type[T], *, fresh: bool = ...) -> T: ...

    async def get(self, shape: type[T] | None = None, *, fresh: bool = False) -> T | Document:
        """Read the whole object: from memory if its resource is in `cache`, else as it is now.

        What is in memory includes this shard's own writes, and lacks `managedFields`.

        Args:
            shape: A msgspec Struct, dataclass or TypedDict to decode it as; other fields are
                skipped.  Without it: the JSON document.
            fresh: Read it as it is now in any case.

        Raises:
            NotFound: it is gone.
            NotOwned: it is draining, or another shard has it.
            InvalidObject: it does not have the shape.
        """
        main = self._workplace.main
        raw = await (main.documents.get(self._ref) if fresh else main.read(self._ref))
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
        """Return all children of the object, from memory, by namespace and name.

        They include what this shard has written, and what the shard had written that had the
        object before; they lack `managedFields`.

        Args:
            resource: Such as `configmaps`; it must be in the reconciler's `owns` and `cache`.
            shape: As for `get`.

        Raises:
            ConfigError: the resource is not in `owns` and `cache`.
            NotOwned: the object is draining, or another shard has it.
            InvalidObject: a child does not have the shape.
        """
        found = await self._workplace.cached_children(parse_resource(resource), self._meta.uid)
        self.check()
        if shape is None:
            return [document(raw) for raw in found]
        return [decode(raw, shape) for raw in found]

    async def patch(self, body: Body) -> Document:
        """Merge `body` into the object (RFC 7386) and return the result.

        The write is guarded by the resourceVersion that this request saw last: call `get` first
        if the write depends on what the object holds.

        Raises:
            Conflict: another client has changed it since.
            LeaseLost, NotOwned: this shard must not write it.
        """
        return await self._patch(self._workplace.main.documents, body)

    async def patch_status(self, body: Body) -> Document:
        """Do the same for the status subresource; `body` is `{"status": {…}}`."""
        return await self._patch(self._workplace.status, body)

    async def set_condition(
        self, kind: str, *, status: bool | None, reason: str, message: str = ""
    ) -> Document:
        """Set a condition in the object's status and return the object.

        Its lastTransitionTime changes only with its status, and nothing is written if nothing
        differs.  Its observedGeneration is that of the object as this request saw it last, so read
        the object before you judge it.

        Args:
            kind: The type, such as `Ready`.
            status: Whether it holds; None stands for Unknown.
            reason: Why, in one CamelCase word.
            message: Why, in a sentence.

        Raises:
            Conflict: another client has changed the object since.
            LeaseLost, NotOwned: this shard must not write it.
        """
        generation = self._meta.generation
        seen = await self.get() if self._read is None else document(self._read)
        before = seen.get("status")
        known = before.get("conditions") if isinstance(before, dict) else None
        conditions = with_condition(
            known,
            kind,
            status=status,
            reason=reason,
            message=message,
            generation=generation,
            now=self._workplace.clock.now(),
        )
        if conditions == known:
            return seen
        return await self.patch_status({"status": {"conditions": conditions}})

    async def add_finalizer(self, name: str) -> None:
        """Add a finalizer to the object, unless it has it.

        Raises:
            Conflict: another client has changed the object since this request saw it.
            LeaseLost, NotOwned: this shard must not write it.
        """
        if not self._meta.has_finalizer(name):
            await self.patch({"metadata": {"finalizers": [*(self._meta.finalizers or ()), name]}})

    async def remove_finalizer(self, name: str) -> None:
        """Remove a finalizer from the object; a deleted object without any is gone.

        Raises:
            As `add_finalizer`.
        """
        if self._meta.has_finalizer(name):
            kept = [each for each in self._meta.finalizers or () if each != name]
            await self.patch({"metadata": {"finalizers": kept}})

    async def delete(self, child: Body | None = None) -> bool:
        """Delete the object or a child of it; return whether there was none any more.

        Exactly the object that was read is deleted, in the state that was read.  One that is being
        deleted already, and waits for its finalizers, is left alone.

        Args:
            child: Has `kind` and `metadata.name`, as for `ensure`.

        Raises:
            NotOwned: the object is not this shard's, or the child belongs to another shard or
                another object.
            Conflict: another client has changed it since it was read.
            ConfigError: the child's resource is not in `owns`.
        """
        if child is not None:
            return await self._children.delete(self._meta, child)
        self.check()
        return await delete_seen(self._workplace.main.documents, self._meta)

    async def ensure(self, body: Body, *, replace: Collection[str] = ()) -> Document:
        """Create or update a child of the object, and return it.

        The child gets this shard's owner label and a controller reference to the object.  Fields
        that `body` does not name stay; nothing is written if nothing differs.  This is a read and
        a guarded write, not server-side apply: that would take over a child that another client
        creates at the same time.

        Args:
            body: Has `kind` and `metadata.name`; its resource must be in the reconciler's `owns`.
                None removes a field (not on creation).
            replace: Fields, such as `data`, in which keys that `body` does not name are removed.

        Raises:
            NotOwned: the object is not this shard's, or a child of that name belongs to another
                shard or another object; also one that was created just now, if the webhook does
                not know this shard yet.
            Conflict: another client has created or changed the child at the same time.
            ConfigError: the resource is not in `owns`.
        """
        return await self._children.ensure(self._meta, body, replace=replace)

    @deprecated("use ensure")
    async def apply(self, body: Body, *, replace: Collection[str] = ()) -> Document:
        """Do as `ensure`, its new name."""
        return await self.ensure(body, replace=replace)

    async def event(self, reason: str, note: str, *, warning: bool = False) -> None:
        """Record an Event on the object, as `kubectl describe` shows it.

        The same Event again raises the count of the first, at most once in a minute.  An Event
        that the API server does not take is logged, and no error.

        Args:
            reason: What happened, in one CamelCase word.
            note: What happened, in a sentence; the first 1,024 characters are kept.  Each
                different note is an Event of its own, so put no times or numbers into it.
            warning: Whether it is of the type Warning instead of Normal.

        Raises:
            LeaseLost, NotOwned: this shard must not act on the object.
        """
        self.check()
        about = PartialObject(
            api_version=api_version(self._workplace.main.resource),
            kind=self._workplace.main.resource.kind,
            metadata=self._meta,
        )
        await self._workplace.events.record(about, reason, note, warning=warning)

    def check(self) -> None:
        """Do nothing if this shard may act on the object now; call it right before side effects.

        Raises:
            LeaseLost: another holder has the Lease, or might have it.
            NotOwned: the object is draining or has left this shard, or the reconcile has ended.
        """
        if not self._workplace.holds_lease():
            raise LeaseLost(f"shard {self.shard} must not act on {self._ref}: lease not renewed")
        if not self._is_open:
            raise NotOwned(f"the reconcile of {self._ref} has ended")
        seen = self._workplace.owned.get(self._ref)
        if seen is None or seen.uid != self._meta.uid:
            raise NotOwned(f"{self._ref} has left shard {self.shard}, or was deleted")
        for meta in (seen, self._meta):
            if self._workplace.identity.ownership_of(meta) is not Ownership.OURS:
                raise NotOwned(f"{self._ref} is draining, or not owned by shard {self.shard}")

    def close(self) -> None:
        """End the request: refuse everything from now on."""
        self._is_open = False

    async def _patch(self, documents: Documents, body: Body) -> Document:
        self.check()
        raw = await documents.patch(self._ref, guarded(body, self._meta))
        self._refresh(raw)
        return document(raw)

    def _refresh(self, raw: msgspec.Raw) -> None:
        """Store what was read or answered."""
        self._meta = decode(raw, OwnObject).metadata
        self._read = raw
