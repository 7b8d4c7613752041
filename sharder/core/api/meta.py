"""Object metadata as it is on the wire, resources as the API server serves them, and what selects.

The structs contain only the fields that sharding uses.  Decoding skips all others, so it is cheap.
The structs are immutable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, Union
from urllib.parse import unquote

import msgspec

from sharder.core.names import GroupResource, ObjectRef

Json: TypeAlias = Union[str, int, float, bool, "Mapping[str, Json]", "Sequence[Json]", None]
"""Any JSON value; the bodies of writes consist of such values."""


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An owner of an object; `controller` is True for the owner that manages the object."""

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
    """The metadata that sharding reads; missing fields are empty."""

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
        """Return whether the object has the label, with any value."""
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
        for ref in self.owner_references or ():
            if ref.controller:
                return ref
        return None


class PartialObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of any kind, with only its type and metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def group(self) -> str:
        """The API group of the object's kind, empty for core."""
        return api_group(self.api_version)

    def identity(self) -> "PartialObject":
        """Return only which object it is, and its version, without fields that can be large."""
        meta, version = self.metadata, self.metadata.resource_version
        return PartialObject(
            api_version=self.api_version,
            kind=self.kind,
            metadata=ObjectMeta(
                name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=version
            ),
        )


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
    singular: str = ""
    short_names: tuple[str, ...] = ()
    """Other names that kubectl accepts for it; empty if no discovery was needed."""

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.id.group}/{self.version}" if self.id.group else self.version


def is_older(version: str, than: str) -> bool:
    """Return whether a resourceVersion is lower; those that are not numbers have no order.

    The versions of one resource are numbers that grow (KEP-5504).
    """
    return 0 < number_of(version) < number_of(than)


def number_of(version: str) -> int:
    """Return a version as a number, 0 if there is none or an aggregated API uses text."""
    return int(version) if version.isascii() and version.isdecimal() else 0


def resource_path(path: str) -> tuple[str, str, list[str]] | None:
    """Return group, version and the parts after them; None if the path names no resource.

    An escaped slash separates parts, too.

    Source: apiserver, pkg/endpoints/request/requestinfo.go.
    """
    root, *parts = unquote(path).strip("/").split("/")
    if root == "api" and len(parts) >= 2:
        return "", parts[0], parts[1:]
    if root == "apis" and len(parts) >= 3:
        return parts[0], parts[1], parts[2:]
    return None


def namespace_in(parts: list[str]) -> tuple[str, list[str]]:
    """Return the namespace, empty for none, and the parts after it: resource, name and more."""
    is_within = parts[0] == "namespaces" and len(parts) > 2
    if is_within and parts[2] not in {"status", "finalize"}:
        return parts[1], parts[2:]
    return "", parts


NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with the name of a namespace; the API server sets it."""

OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""The operators that the API server knows."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One expression of a LabelSelector; with an unknown operator, it matches nothing.

    Decoding accepts such an operator, because otherwise the whole ring would be unreadable.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Match like the API server: `NotIn` also matches if the label is missing."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        listed = self.key in labels and labels[self.key] in self.values
        return self.operator in OPERATORS and listed == (self.operator == "In")


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A LabelSelector of metav1; an empty one matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches an object with these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )
