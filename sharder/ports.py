"""The external dependencies of the controllers, as small Protocols.

`sharder.kube` implements them on an API server, of a cluster or in memory (`sharder.sdk.testing`).
Every call can raise an `ApiError` of `sharder.core.errors`.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeAlias, TypeVar

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.names import GroupResource, ObjectRef

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Changed(Generic[T_co]):
    """The object was created or updated, or started to match the selector."""

    obj: T_co
    is_new: bool = field(default=False, compare=False)
    """Whether the watch shows the object for the first time: it was not in the list."""


@dataclass(frozen=True, slots=True)
class Removed(Generic[T_co]):
    """The object was deleted, or stopped matching; `obj` is its last matching state."""

    obj: T_co


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All changes up to this version were sent: resume from it; if it is empty, list again."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Listed(Generic[T_co]):
    """The whole state, which replaces all known objects."""

    items: Sequence[T_co]
    resource_version: str


WatchEvent: TypeAlias = Changed[T] | Removed[T] | Bookmark
Event: TypeAlias = Listed[T] | Changed[T] | Removed[T]
"""What a consumer of lists and watches gets, without bookmarks."""


class Watchable(Protocol[T_co]):
    """A collection to list and then to watch."""

    async def list(self, keep: Callable[[T_co], bool] | None = None) -> Listed[T_co]:
        """Return all objects and the resource version to watch from.

        With `keep`, only objects for which `keep` returns True.  It is called page by page, so all
        other objects leave memory early.
        """
        ...

    def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T_co], None]:
        """Yield the events after `resource_version`, until the server ends the stream.

        Raises:
            Expired: the version is too old; list again.
        """
        ...


class Store(Watchable[T_co], Protocol[T_co]):
    """A collection to list, watch, read and write."""

    async def get(self, ref: ObjectRef) -> T_co:
        """Read the object (a quorum read)."""
        ...

    def stream(self, labels: str = "", fields: str = "") -> AsyncGenerator[T_co, None]:
        """Yield the objects that also match these selectors, in pages, each at most once."""
        ...

    async def create(self, namespace: str, body: Json) -> T_co:
        """Create an object; `Conflict` if the name is taken."""
        ...

    async def patch(self, ref: ObjectRef, body: Json) -> T_co:
        """Merge `body` into the object (RFC 7386) and return the result.

        A `metadata.resourceVersion` in the body guards the write: `Conflict` if it has changed.
        """
        ...

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete the object; `Conflict` if it has another uid or resourceVersion."""
        ...

    async def apply(self, ref: ObjectRef, body: Json) -> T_co:
        """Apply `body` under the sharder's field manager, taking over conflicting fields.

        This creates a missing object; RBAC can allow that for a single name, unlike `create`.
        `body` has apiVersion and kind; fields that `body` omits stay unchanged.
        """
        ...


class Objects(Protocol):
    """Any resource of the cluster, by metadata only."""

    def server_time(self) -> datetime | None:
        """Return the API server's clock, as its last answer shows it; None without an answer.

        It is late by less than a second, and by what the answer took.
        """
        ...

    async def find(self, resource: GroupResource) -> Resource:
        """Discover the resource; `NotFound` if the API server does not serve it."""
        ...

    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> Store[PartialObject]:
        """Return the resource's objects that match the label and the field selector.

        Without `namespace`, these are objects of all namespaces.  Fields are `metadata.name` and
        `metadata.namespace`: the server supports no other fields for all resources.
        """
        ...
