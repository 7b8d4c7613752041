"""Guarded writes to the children of one object."""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.errors import Conflict, InvalidObject, NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk.documents import difference, mapping
from sharder.sdk.reads.collection import Collected
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.identity import Ownership
from sharder.shard.objects import Body, Document, decode, document, guarded, is_controlled

POLL_SECONDS: Final = 1.0
"""Between two reads of a new child that another shard owns."""

_log = logging.getLogger(__name__)


class NameTaken(Conflict):
    """An object that the parent does not control has the name of the child."""


@dataclass(frozen=True, slots=True)
class Children:
    """The children of one object during one reconcile."""

    context: ResourceContext
    meta: ObjectMeta
    """The parent's."""
    check: Callable[[], None]
    """Raises unless the shard can act now."""

    async def ensure(self, body: Body, *, replace: Collection[str], adopt: bool) -> Document:
        """Create or update a child; see `Request.ensure`."""
        collected = self.context.children_like(body)
        resource = collected.resource
        ref = self._locate(body, resource)
        self.check()
        try:
            raw = await collected.read(ref)
        except NotFound:
            self.check()
            raw = await collected.create(ref.namespace, self._stamped(body, ref, resource))
            return document(await self._once_owned(raw, collected))
        child, current = decode(raw, PartialObject).metadata, document(raw)
        adopts = adopt and _is_free(child) and await self._is_there_to_stay()
        if not adopts:
            self._admit(child, resource)
        changes = difference(current, body, replace=replace)
        if adopts:
            changes = self._adoption(current, changes)
        if not changes:
            return current
        self.check()
        raw = await collected.patch(ref, guarded(changes, child))
        if adopts:
            _log.info("adopted %s", ref, extra=self.context.fields(self.meta.ref))
            # A webhook can restore the owner label that the child had before.
            self._admit(decode(raw, PartialObject).metadata, resource)
        return document(raw)

    async def delete(self, body: Body) -> bool:
        """Delete a child; see `Request.delete`."""
        collected = self.context.children_like(body)
        ref = self._locate(body, collected.resource)
        self.check()
        try:
            child = decode(await collected.read(ref), PartialObject).metadata
        except NotFound:
            return True
        if not is_controlled(child, self.meta.uid):
            return True
        self._admit(child, collected.resource)
        self.check()
        return await collected.delete(child)

    async def _once_owned(self, raw: msgspec.Raw, collected: Collected) -> msgspec.Raw:
        """Return a new child when it has this shard's owner label.

        A webhook that does not know yet that this shard is back gives the child to another one.
        The watch does not show the child until the leader has corrected the label, so a reconcile
        that did not wait would make a second child.
        """
        context = self.context
        while True:
            child = decode(raw, PartialObject).metadata
            if context.identity.ownership_of(child) is not Ownership.ELSEWHERE:
                self._admit(child, collected.resource)
                return raw
            await context.shard.clock.sleep(POLL_SECONDS)
            with suppress(Unavailable):
                raw = await collected.reread(child.ref)

    async def _is_there_to_stay(self) -> bool:
        """Return whether the parent exists and is not being deleted, by a quorum read.

        Otherwise a shard whose watch is late would adopt the children that
        `kubectl delete --cascade=orphan` has just released, and they would be deleted.
        """
        raw = await self.context.main.documents.get(self.meta.ref)
        parent = decode(raw, PartialObject).metadata
        return parent.uid == self.meta.uid and parent.deletion_timestamp is None

    def _locate(self, body: Body, resource: Resource) -> ObjectRef:
        """Return the child that `body` names; its namespace defaults to the parent's.

        Raises:
            InvalidObject: `body` has no name, or another namespace than a namespaced parent.
        """
        metadata = mapping(body.get("metadata"))
        name, namespace = metadata.get("name"), metadata.get("namespace")
        if not isinstance(name, str) or not name:
            raise InvalidObject(f"a child of {self.meta.ref} needs metadata.name")
        if not resource.namespaced:
            return ObjectRef("", name)
        ref = ObjectRef(str(namespace or self.meta.namespace), name)
        if self.meta.namespace and ref.namespace != self.meta.namespace:
            raise InvalidObject(
                f"{ref} cannot be a child of {self.meta.ref}: both must be in one namespace. "
                "Write it with a client of your own"
            )
        return ref

    def _stamped(self, body: Body, ref: ObjectRef, resource: Resource) -> Body:
        """Return the body that creates the child: owned by this shard, controlled by the parent.

        The owner label always names this shard, so the child belongs to its creator even while the
        parent drains.
        """
        metadata = mapping(body.get("metadata"))
        place = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._claimed({**body, **kind, "metadata": {**metadata, **place}})

    def _adoption(self, current: Body, changes: Body) -> Body:
        """Return `changes` and those that make the parent the controller; others stay owners."""
        owners = mapping(current.get("metadata")).get("ownerReferences")
        others = [
            each
            for each in (owners if isinstance(owners, list) else ())
            if mapping(each).get("uid") != self.meta.uid
        ]
        return self._claimed(changes, others, self.context.identity.drain_label)

    def _claimed(self, body: Body, others: Sequence[Json] = (), *dropped: str) -> Body:
        """Return a body with our owner label, without others, and the parent as controller."""
        metadata, identity = mapping(body.get("metadata")), self.context.identity
        known = mapping(metadata.get("labels"))
        main = self.context.main.resource
        reference: Json = {
            "apiVersion": main.api_version,
            "kind": main.kind,
            "name": self.meta.name,
            "uid": self.meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        claim: Body = {
            "labels": {**known, **dict.fromkeys(dropped), identity.owner_label: identity.shard},
            "ownerReferences": [*others, reference],
        }
        return {**body, "metadata": {**metadata, **claim}}

    def _admit(self, child: ObjectMeta, resource: Resource) -> None:
        """Raise unless this shard can write the existing object of the child's name.

        Raises:
            NameTaken: the parent does not control the object.
            NotOwned: the child drains, or has another owner.
        """
        identity, main = self.context.identity, self.context.main.resource
        if not is_controlled(child, self.meta.uid):
            why = f"is not controlled by {main.kind} {self.meta.ref}: delete or rename it"
            if _is_free(child):
                why = (
                    "has no controller: adopt it by ensure(…, adopt=True), or delete or rename it"
                )
            raise NameTaken(f"{resource.kind} {child.ref} exists and {why}")
        if identity.ownership_of(child) is not Ownership.OURS:
            raise NotOwned(
                f"{child.ref} is not owned by shard {identity.shard}: its owner label is "
                f"{child.label(identity.owner_label) or ''!r}"
            )


def _is_free(child: ObjectMeta) -> bool:
    """Return whether the parent can become the controller of the object."""
    return child.controller is None and child.deletion_timestamp is None
