"""The writes of a shard to children of its objects, as data.  Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sharder.core.api.meta import Json, ObjectMeta, Resource
from sharder.core.errors import Conflict, InvalidObject
from sharder.core.names import ObjectRef
from sharder.sdk.reads.owned import NotOwned
from sharder.shard.identity import Identity, Ownership
from sharder.shard.objects import Body, api_version


class NameTaken(Conflict):
    """An object that the parent does not control has the name of the child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The object that controls the child, and the shard that owns both."""

    identity: Identity
    resource: Resource
    meta: ObjectMeta

    def locate(self, body: Body, resource: Resource) -> ObjectRef:
        """Return the child that `body` names; its namespace defaults to the parent's.

        Raises:
            InvalidObject: `body` has no name, or another namespace than a namespaced parent.
        """
        metadata = _mapping(body.get("metadata"))
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

    def stamp(self, body: Body, ref: ObjectRef, resource: Resource) -> Body:
        """Return the body that creates the child: owned by this shard, controlled by the parent.

        The owner label always names this shard, so the child belongs to its creator even while the
        parent drains.
        """
        metadata = _mapping(body.get("metadata"))
        labels = {
            **_mapping(metadata.get("labels")),
            self.identity.owner_label: self.identity.shard,
        }
        place = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
        return {
            **body,
            "apiVersion": api_version(resource),
            "kind": resource.kind,
            "metadata": {
                **metadata,
                **place,
                "labels": labels,
                "ownerReferences": [self._reference()],
            },
        }

    def can_adopt(self, child: ObjectMeta) -> bool:
        """Return whether the parent can become the controller of the object."""
        return child.controller is None and child.deletion_timestamp is None

    def adoption(self, current: Body, changes: Body) -> Body:
        """Return `changes` and those that make the parent the controller; others stay owners."""
        metadata, had = _mapping(changes.get("metadata")), _mapping(current.get("metadata"))
        owners = had.get("ownerReferences")
        others = [
            each
            for each in (owners if isinstance(owners, list) else ())
            if _mapping(each).get("uid") != self.meta.uid
        ]
        labels: Body = {
            **_mapping(metadata.get("labels")),
            self.identity.owner_label: self.identity.shard,
            self.identity.drain_label: None,
        }
        references = [*others, self._reference()]
        return {
            **changes,
            "metadata": {**metadata, "labels": labels, "ownerReferences": references},
        }

    def controls(self, obj: ObjectMeta) -> bool:
        """Return whether the parent is the object's controller."""
        controller = obj.controller
        return controller is not None and controller.uid == self.meta.uid

    def admit(self, child: ObjectMeta, resource: Resource) -> None:
        """Raise unless this shard can write the existing object of the child's name.

        Raises:
            NameTaken: the parent does not control the object.
            NotOwned: the child drains, or has another owner.
        """
        if not self.controls(child):
            why = f"is not controlled by {self.resource.kind} {self.meta.ref}: delete or rename it"
            if self.can_adopt(child):
                why = (
                    "has no controller: adopt it by ensure(…, adopt=True), or delete or rename it"
                )
            raise NameTaken(f"{resource.kind} {child.ref} exists and {why}")
        if self.identity.ownership_of(child) is not Ownership.OURS:
            raise NotOwned(
                f"{child.ref} is not owned by shard {self.identity.shard}: its owner label is "
                f"{child.label(self.identity.owner_label) or ''!r}"
            )

    def _reference(self) -> Json:
        return {
            "apiVersion": api_version(self.resource),
            "kind": self.resource.kind,
            "name": self.meta.name,
            "uid": self.meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def difference(current: Body, wanted: Body, *, replace: Collection[str] = ()) -> Body:
    """Return the merge patch (RFC 7386) that sets the wanted fields, empty if none differs.

    Args:
        current: The whole object.
        wanted: The wanted fields; None removes a field, and lists are compared as a whole.  Of the
            metadata only labels, annotations and finalizers count.
        replace: Fields, such as `data`, whose keys are removed if `wanted` does not name them.
    """
    patch = {
        field: change
        for field, value in wanted.items()
        if field not in {"apiVersion", "kind", "metadata"}
        for change in _change(current.get(field), value, exact=field in replace)
    }
    had, metadata = _mapping(current.get("metadata")), _mapping(wanted.get("metadata"))
    changes: Body = {
        field: change
        for field in ("labels", "annotations", "finalizers")
        if field in metadata
        for change in _change(had.get(field), metadata[field], exact=False)
    }
    return {**patch, "metadata": changes} if changes else patch


def _change(current: Json, wanted: Json, *, exact: bool) -> tuple[Json, ...]:
    """Return the merge patch of a value as a tuple of one, or () if it does not change."""
    if not isinstance(wanted, Mapping):
        return () if current == wanted else (wanted,)
    had = _mapping(current)
    changes = {
        key: change
        for key, value in wanted.items()
        for change in _change(had.get(key), value, exact=False)
    }
    if exact:
        changes |= dict.fromkeys(had.keys() - wanted.keys())
    return (changes,) if changes or not isinstance(current, Mapping | None) else ()


def _mapping(value: Json) -> Body:
    return value if isinstance(value, Mapping) else {}
