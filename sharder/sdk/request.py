"""The argument of an author's function: one object, and guarded reads and writes."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, overload

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource, api_group
from sharder.core.errors import ConfigError, InvalidObject, LeaseLost, NotFound
from sharder.core.names import GroupResource, ObjectRef, RingName, ShardName
from sharder.sdk.children import Body, Parent, difference
from sharder.sdk.owned import Identity, NotOwned, OwnedObjects, Ownership

Document: TypeAlias = dict[str, Json]
"""A whole object as JSON."""

T = TypeVar("T")


class Documents(Protocol):
    """Whole objects of one resource, undecoded."""

    async def get(self, ref: ObjectRef) -> msgspec.Raw:
        """Return the object as it is now (a quorum read)."""
        ...

    async def create(self, namespace: str, body: Json) -> msgspec.Raw:
        """Create an object; `Conflict` if the name is taken."""
        ...

    async def patch(self, ref: ObjectRef, body: Json) -> msgspec.Raw:
        """Merge `body` into the object, guarded by its `metadata.resourceVersion`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A resource and its objects."""

    resource: Resource
    documents: Documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What the requests of one shard share."""

    identity: Identity
    owned: OwnedObjects
    main: Collected
    status: Documents
    """The main objects; patches go to their status."""
    children: tuple[Collected, ...]
    holds_lease: Callable[[], bool]
    """Whether the Lease is certainly ours now."""

    def fields(self, ref: ObjectRef, **more: str) -> dict[str, str]:
        """Return the fields of a log record about a main object, and `more`."""
        return {
            "ring": self.identity.ring,
            "shard": self.identity.shard,
            "resource": str(self.main.resource.id),
            "object": str(ref),
            **more,
        }


class Request:
    """One object that this shard owns, for the duration of one reconcile.

    It names the object to reconcile, not what happened to it.  Writes are refused (`LeaseLost`,
    `NotOwned`) once the Lease might be lost, the object is draining or has left this shard, or the
    reconcile has ended.  Do not catch these errors: the object is requeued if necessary.
    """

    def __init__(self, ref: ObjectRef, meta: ObjectMeta, workplace: Workplace) -> None:
        self._ref = ref
        self._meta = meta
        self._workplace = workplace
        self._is_open = True

    @property
    def ref(self) -> ObjectRef:
        """Namespace (empty for cluster-scoped objects) and name."""
        return self._ref

    @property
    def metadata(self) -> ObjectMeta:
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
    async def get(self) -> Document: ...

    @overload
    async def get(self, shape: type[T]) -> T: ...

    async def get(self, shape: type[T] | None = None) -> T | Document:
        """Read the whole object.

        Args:
            shape: A msgspec Struct, dataclass or TypedDict to decode it as; other fields are
                skipped.  Without it: the JSON document.

        Raises:
            NotFound: it is gone.
            NotOwned: it is draining, or another shard has it.
            InvalidObject: it does not have the shape.
        """
        raw = await self._workplace.main.documents.get(self._ref)
        self._refresh(raw)
        self.check()
        return _document(raw) if shape is None else _decode(raw, shape)

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

    async def apply(self, body: Body, *, replace: Collection[str] = ()) -> Document:
        """Create or update a child of the object, and return it.

        The child gets this shard's owner label and a controller reference to the object.  Fields
        that `body` does not name stay; nothing is sent if nothing differs.

        Args:
            body: Has `kind` and `metadata.name`; its resource must be in the Shard's `owns`.  None
                removes a field (not on creation).
            replace: Fields, such as `data`, in which keys that `body` does not name are removed.

        Raises:
            NotOwned: the object is not this shard's, or a child of that name belongs to another
                shard or another object.
            Conflict: another client has created or changed the child at the same time.
            ConfigError: the resource is not in `owns`.
        """
        kind = self._collection_of(body)
        parent = Parent(
            identity=self._workplace.identity,
            resource=self._workplace.main.resource,
            meta=self._meta,
        )
        ref = parent.locate(body, kind.resource)
        self.check()
        try:
            raw = await kind.documents.get(ref)
        except NotFound:
            self.check()
            stamped = parent.stamp(body, ref, kind.resource)
            return _document(await kind.documents.create(ref.namespace, stamped))
        child, current = _decode(raw, PartialObject).metadata, _document(raw)
        parent.admit(child)
        changes = difference(current, body, replace=replace)
        if not changes:
            return current
        self.check()
        return _document(await kind.documents.patch(ref, _guarded(changes, child)))

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
        raw = await documents.patch(self._ref, _guarded(body, self._meta))
        self._refresh(raw)
        return _document(raw)

    def _refresh(self, raw: msgspec.Raw) -> None:
        """Store the metadata of an answer."""
        self._meta = _decode(raw, PartialObject).metadata

    def _collection_of(self, body: Body) -> Collected:
        wanted = (api_group(str(body.get("apiVersion", ""))), body.get("kind"))
        for kind in self._workplace.children:
            if wanted == (kind.resource.id.group, kind.resource.kind):
                return kind
        raise ConfigError(f"{wanted[1]} of group {wanted[0]!r} is not in `owns`")


def parse_resource(text: str) -> GroupResource:
    """Return what `secrets` or `deployments.apps` names."""
    resource, _, group = text.partition(".")
    return GroupResource(group, resource)


def _guarded(body: Body, meta: ObjectMeta) -> Body:
    metadata = body.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    return {**body, "metadata": {**fields, "resourceVersion": meta.resource_version}}


def _document(raw: msgspec.Raw) -> Document:
    document: Document = msgspec.json.decode(raw)
    return document


def _decode(raw: msgspec.Raw, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"the object does not have the expected shape: {error}") from error
