"""Guarded writes to the children of one object."""

import logging
from collections.abc import Callable, Collection

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import NotFound
from sharder.sdk.resource_context import ResourceContext
from sharder.sdk.writes.children import Parent, difference
from sharder.shard.objects import Body, Document, decode, document, guarded

_log = logging.getLogger(__name__)


class ChildWriter:
    """Writes children during one reconcile; `check` raises unless the shard can act now."""

    def __init__(self, context: ResourceContext, check: Callable[[], None]) -> None:
        self._context = context
        self._check = check

    async def ensure(
        self, of: ObjectMeta, body: Body, *, replace: Collection[str], adopt: bool
    ) -> Document:
        """Create or update a child of the object `of`; see `Request.ensure`."""
        collected, parent = self._context.children_like(body), self._parent(of)
        ref = parent.locate(body, collected.resource)
        self._check()
        try:
            raw = await collected.read(ref)
        except NotFound:
            self._check()
            stamped = parent.stamp(body, ref, collected.resource)
            raw = await collected.create(ref.namespace, stamped)
            # A webhook can change the owner label of the new child.
            parent.admit(decode(raw, PartialObject).metadata, collected.resource)
            return document(raw)
        child, current = decode(raw, PartialObject).metadata, document(raw)
        adopts = adopt and parent.can_adopt(child) and await self._is_there_to_stay(of)
        if not adopts:
            parent.admit(child, collected.resource)
        changes = difference(current, body, replace=replace)
        if adopts:
            changes = parent.adoption(current, changes)
        if not changes:
            return current
        self._check()
        raw = await collected.patch(ref, guarded(changes, child))
        if adopts:
            _log.info("adopted %s", ref, extra=self._context.fields(of.ref))
            # A webhook can restore the owner label that the child had before.
            parent.admit(decode(raw, PartialObject).metadata, collected.resource)
        return document(raw)

    async def delete(self, of: ObjectMeta, body: Body) -> bool:
        """Delete a child of the object `of`; see `Request.delete`."""
        collected, parent = self._context.children_like(body), self._parent(of)
        ref = parent.locate(body, collected.resource)
        self._check()
        try:
            child = decode(await collected.read(ref), PartialObject).metadata
        except NotFound:
            return True
        if not parent.controls(child):
            return True
        parent.admit(child, collected.resource)
        self._check()
        return await collected.delete(child)

    async def _is_there_to_stay(self, of: ObjectMeta) -> bool:
        """Return whether the parent exists and is not being deleted, by a quorum read.

        Otherwise a shard whose watch is late would adopt the children that
        `kubectl delete --cascade=orphan` has just released, and they would be deleted.
        """
        parent = decode(await self._context.main.documents.get(of.ref), PartialObject).metadata
        return parent.uid == of.uid and parent.deletion_timestamp is None

    def _parent(self, meta: ObjectMeta) -> Parent:
        main = self._context.main.resource
        return Parent(identity=self._context.identity, resource=main, meta=meta)
