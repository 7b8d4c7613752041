"""What etcd is to an API server: objects, one counter of revisions, and the recent changes."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.requests import Client

T = TypeVar("T")

Tree: TypeAlias = dict[str, Json]
"""A whole object as JSON; never changed once it is stored."""

_FIRST_REVISION: Final = 100


def metadata_of(tree: Tree) -> Tree:
    """Return the object's metadata, empty if it has none."""
    metadata = tree.get("metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}


def finalizers_of(tree: Tree) -> Sequence[str]:
    """Return the object's finalizers."""
    value = metadata_of(tree).get("finalizers")
    return [str(each) for each in value] if isinstance(value, list) else ()


class Stored:
    """One version of an object, with what is computed from it."""

    __slots__ = ("__dict__", "tree")

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @cached_property
    def meta(self) -> ObjectMeta:
        """The metadata."""
        return msgspec.convert(self.tree["metadata"], ObjectMeta)

    @property
    def version(self) -> str:
        """The resourceVersion."""
        return self.meta.resource_version

    def as_(self, of: type[T]) -> T:
        """Return the object decoded as the struct `of`."""
        return msgspec.convert(self.tree, of)

    def at(self, revision: int) -> "Stored":
        """Return the object with another resourceVersion."""
        metadata = metadata_of(self.tree) | {"resourceVersion": str(revision)}
        return Stored({**self.tree, "metadata": metadata})

    @cached_property
    def encoded(self) -> bytes:
        """The whole object as JSON."""
        return msgspec.json.encode(self.tree)

    def encoded_as(self, api_version: str) -> bytes:
        """The whole object in a version of its API; all versions have the same fields."""
        if self.tree.get("apiVersion") == api_version:
            return self.encoded
        return msgspec.json.encode({**self.tree, "apiVersion": api_version})

    @cached_property
    def item(self) -> bytes:
        """The whole object as an item of a list of a built-in resource."""
        return msgspec.json.encode(
            {key: each for key, each in self.tree.items() if key not in {"apiVersion", "kind"}}
        )

    @cached_property
    def partial(self) -> bytes:
        """The object as PartialObjectMetadata."""
        kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return msgspec.json.encode({**kind, "metadata": self.tree["metadata"]})


class Change(NamedTuple):
    """A committed write; `before` or `after` is None if there was or is no object."""

    revision: int
    resource: GroupResource
    ref: ObjectRef
    before: Stored | None
    after: Stored | None
    author: Client
    """Who wrote."""


class Storage:
    """All objects; several API servers can share it."""

    def __init__(self) -> None:
        self.revision = _FIRST_REVISION
        self.compacted = _FIRST_REVISION
        """Changes up to this revision are forgotten."""
        self.objects: dict[GroupResource, dict[ObjectRef, Stored]] = {}
        self.history: list[Change] = []
        self.numbers = count(1)
        """Of uids and generated names."""
        self.observers: list[Callable[[Change], None]] = []
        """Called with every change, in order, before the writer gets its answer."""

    def of(self, resource: GroupResource) -> dict[ObjectRef, Stored]:
        """Return the objects of a resource."""
        return self.objects.setdefault(resource, {})

    def commit(
        self,
        resource: GroupResource,
        ref: ObjectRef,
        after: Tree | None,
        *,
        author: Client,
    ) -> Stored:
        """Store the object, or remove it if `after` is None; return its last version."""
        objects = self.of(resource)
        before = objects.get(ref)
        self.revision += 1
        last = Stored(after or (before.tree if before else {})).at(self.revision)
        if after is None:
            del objects[ref]
        else:
            objects[ref] = last
        now = None if after is None else last
        change = Change(self.revision, resource, ref, before, now, author)
        self.history.append(change)
        for observer in self.observers:
            observer(change)
        return last

    def since(self, revision: int) -> Sequence[Change]:
        """Return the changes after a revision."""
        return self.history[bisect_right(self.history, revision, key=lambda each: each.revision) :]

    def compact(self) -> None:
        """Forget the changes so far: older versions are expired."""
        self.history.clear()
        self.compacted = self.revision
