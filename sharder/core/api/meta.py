"""Object metadata as it stands on the wire.

The structs hold just the fields that sharding looks at; the rest is skipped while decoding, which
is what makes decoding cheap.  They are immutable values.

Resources as the API server serves them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

import msgspec

from sharder.core.names import GroupResource, ObjectRef

Json: TypeAlias = Union[str, int, float, bool, "Mapping[str, Json]", "Sequence[Json]", None]
"""Any JSON value; bodies of writes are built from it."""


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who an object belongs to; `controller` marks the one owner that manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group of the owner, empty for core."""
        return api_group(self.api_version)


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata that sharding reads; absent fields are empty."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def label(self, key: str) -> str:
        """Return the label's value, empty if there is none."""
        return (self.labels or {}).get(key, "")

    def has_label(self, key: str) -> bool:
        """Tell whether the label is there, whatever its value."""
        return key in (self.labels or {})

    def annotation(self, key: str) -> str:
        """Return the annotation's value, empty if there is none."""
        return (self.annotations or {}).get(key, "")

    @property
    def ref(self) -> ObjectRef:
        """Namespace and name."""
        return ObjectRef(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`; there is at most one."""
        return next((ref for ref in self.owner_references or () if ref.controller), None)


class PartialObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of any kind, of which only type and metadata are known."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def group(self) -> str:
        """The API group of the object's kind, empty for core."""
        return api_group(self.api_version)


def api_group(api_version: str) -> str:
    """Return the group of an apiVersion: `apps` for `apps/v1`, empty for `v1`."""
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource as the API server serves it, in its preferred version."""

    id: GroupResource
    version: str
    kind: str
    namespaced: bool
