"""Guarded writes to the children of one object."""

from collections.abc import Callable, Collection

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import NotFound
from sharder.sdk.reads.collection import Documents
from sharder.sdk.reads.objects import Body, Document, decode, document, guarded
from sharder.sdk.workplace import Workplace
from sharder.sdk.writes.children import Parent, difference


class ChildWriter:
    """Writes children during one reconcile; `check` raises unless the shard is allowed to act."""

    def __init__(self, workplace: Workplace, check: Callable[[], None]) -> None:
        self._workplace = workplace
        self._check = check

    async def ensure(self, of: ObjectMeta, body: Body, *, replace: Collection[str]) -> Document:
        """Create or update a child of the object `of`; see `Request.ensure`."""
        kind, parent = self._workplace.children_like(body), self._parent(of)
        ref = parent.locate(body, kind.resource)
        self._check()
        try:
            raw = await kind.read(ref)
        except NotFound:
            self._check()
            stamped = parent.stamp(body, ref, kind.resource)
            raw = await kind.documents.create(ref.namespace, stamped)
            parent.admit(decode(raw, PartialObject).metadata)  # a webhook can change its label
            return document(raw)
        child, current = decode(raw, PartialObject).metadata, document(raw)
        parent.admit(child)
        changes = difference(current, body, replace=replace)
        if not changes:
            return current
        self._check()
        return document(await kind.documents.patch(ref, guarded(changes, child)))

    async def delete(self, of: ObjectMeta, body: Body) -> bool:
        """Delete a child of the object `of`; see `Request.delete`."""
        kind, parent = self._workplace.children_like(body), self._parent(of)
        ref = parent.locate(body, kind.resource)
        self._check()
        try:
            child = decode(await kind.read(ref), PartialObject).metadata
        except NotFound:
            return True
        parent.admit(child)
        self._check()
        return await delete_seen(kind.documents, child)

    def _parent(self, meta: ObjectMeta) -> Parent:
        main = self._workplace.main.resource
        return Parent(identity=self._workplace.identity, resource=main, meta=meta)


async def delete_seen(documents: Documents, meta: ObjectMeta) -> bool:
    """Delete an object in the state that `meta` is from; return whether there was none any more.

    One that is being deleted already is left alone.
    """
    if meta.deletion_timestamp is not None:
        return False
    try:
        await documents.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)
    except NotFound:
        return True
    return False
