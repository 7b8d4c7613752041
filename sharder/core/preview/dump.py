"""Plan without a cluster, from a dump: a file with a ControllerRing, its Leases and its objects.

The file is a YAML or JSON stream, as several calls of `kubectl get -o yaml` write it.  The
resource of a kind is in a list of resources in the file, or else follows from the usual plural.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import PartialObject, Resource, api_group
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ConfigError
from sharder.core.names import (
    API_GROUP,
    EXCLUDED_NAMESPACE,
    SYSTEM_NAMESPACE,
    GroupResource,
    ObjectRef,
)
from sharder.core.placement.strategy import CustomFunction
from sharder.core.preview.manifests import parse_stream
from sharder.core.preview.observe import members_of, selected_namespaces, states_of
from sharder.core.preview.plan import plan_ring
from sharder.core.preview.report import PlanReport, report
from sharder.core.preview.what_if import AS_IT_IS, WhatIf
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role

KubeObject = TypeVar("KubeObject", ControllerRing, Lease, PartialObject)

Document: TypeAlias = Mapping[str, object]

_LIST: Final = "List"
_RESOURCES: Final = "APIResourceList"


class _Resource(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    group: str = ""


class _Served(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An APIResourceList of the API server's discovery."""

    group_version: str
    resources: tuple[_Resource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The contents of a file."""

    ring: ControllerRing
    leases: tuple[Lease, ...]
    namespaces: tuple[PartialObject, ...]
    objects: tuple[tuple[GroupResource, PartialObject], ...]
    """All objects, each with its resource, in any order."""

    def newest_renewal(self) -> datetime:
        """Return the newest renewTime in the file, the epoch if there is none."""
        times = (parse_time(lease.spec.renew_time) for lease in self.leases)
        return max(filter(None, times), default=datetime.fromtimestamp(0, UTC))


def plan_dump(
    dump: Dump,
    now: datetime,
    default_namespaces: LabelSelector,
    *,
    what_if: WhatIf = AS_IT_IS,
    custom: Mapping[str, CustomFunction] = MappingProxyType({}),
) -> PlanReport:
    """Return the plan for the objects of the ring's resources.

    If the file has no Namespaces, all namespaces are selected except those of the system.
    Otherwise, the selector of the ring decides.

    Args:
        dump: The contents of the file.
        now: The time (aware) at which Leases are judged.
        default_namespaces: Used if the ring has no namespaceSelector.
        what_if: Differences to the ring and its Leases in the file.
        custom: The installed strategies, by name.

    Raises:
        ConfigError: `what_if` is not possible.
    """
    ring = what_if.ring(dump.ring)
    leases = what_if.leases(ring, dump.leases, now)
    snapshot = build(
        ring,
        members=members_of(ring, leases),
        namespaces=_selected(dump, default_namespaces),
        served=_served_in(dump),
        custom=custom,
    )
    plan = plan_ring(snapshot, _in_scope(snapshot, dump))
    states = states_of(snapshot.members, leases, now)
    return report(snapshot, plan, states, is_exact=what_if.is_exact)


def decode_dump(data: bytes) -> Dump:
    """Return the contents of the file; if an object occurs twice, the last one counts.

    Raises:
        ConfigError: The file is neither YAML nor JSON, an object in it cannot be decoded, or it
            does not contain exactly one ControllerRing.
    """
    documents = [item for document in parse_stream(data) for item in _flatten(document)]
    rings = [_decode(d, ControllerRing) for d in documents if _is(d, API_GROUP, "ControllerRing")]
    if len(rings) != 1:
        names = ", ".join(ring.name for ring in rings) or "none"
        raise ConfigError(f"a dump must contain exactly one ControllerRing, found: {names}")
    known = _known_resources(documents)
    leases: dict[ObjectRef, Lease] = {}
    objects: dict[tuple[GroupResource, ObjectRef], PartialObject] = {}
    for document in documents:
        if document.get("kind") == _RESOURCES:
            continue
        obj = _decode(document, PartialObject)
        objects[resource_of(obj.api_version, obj.kind, known), obj.metadata.ref] = obj
        if _is(document, "coordination.k8s.io", "Lease"):
            leases[obj.metadata.ref] = _decode(document, Lease)
    return Dump(
        ring=rings[0],
        leases=tuple(leases.values()),
        namespaces=tuple(obj for obj in objects.values() if _is_namespace(obj)),
        objects=tuple((resource, obj) for (resource, _), obj in objects.items()),
    )


def _selected(dump: Dump, default: LabelSelector) -> frozenset[str]:
    if not dump.namespaces:
        present = frozenset(obj.metadata.namespace for _, obj in dump.objects)
        return present - {EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE}
    return selected_namespaces(dump.ring, dump.namespaces, default)


def _served_in(dump: Dump) -> Iterator[Resource]:
    """Yield the resource of each object in the file."""
    for resource, obj in dump.objects:
        yield Resource(
            id=resource,
            version="",
            kind=obj.kind,
            namespaced=bool(obj.metadata.namespace),
        )


def _in_scope(snapshot: RingSnapshot, dump: Dump) -> Iterator[tuple[Role, PartialObject]]:
    for resource, obj in dump.objects:
        role = snapshot.roles.get(resource)
        if role is not None and snapshot.selects(obj, role):
            yield role, obj


def _flatten(document: object, kind: str = "", api_version: str = "") -> Iterator[Document]:
    """Yield the objects of a document, including items of lists.

    The items of a list such as `SecretList` can lack kind and apiVersion; then `kind` and
    `api_version` apply.
    """
    if document is None:
        return
    if not isinstance(document, Mapping):
        found = str(document)[:40]
        raise ConfigError(f"a dump must contain only Kubernetes objects, found: {found!r}")
    obj: Document = {"kind": kind, "apiVersion": api_version, **document}
    of, version = str(obj["kind"]), str(obj["apiVersion"])
    if not of:
        raise ConfigError("an object in the dump has no kind: create it with kubectl get -o yaml")
    if not of.endswith(_LIST) or "items" not in obj:
        yield obj
        return
    for item in _items(obj):
        yield from _flatten(item, of.removesuffix(_LIST), "" if of == _LIST else version)


def _items(document: Document) -> Iterable[object]:
    items = document["items"]
    return items if isinstance(items, list) else ()


def _decode(document: Document, of: type[KubeObject]) -> KubeObject:
    """Decode an object; null counts as absent, as in the API server."""
    wanted = {field.encode_name for field in msgspec.structs.fields(of)}
    plain = {name: _without_nulls(value) for name, value in document.items() if name in wanted}
    try:
        obj = msgspec.convert(plain, of)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{document.get('kind')} {_name_of(document)}: {error}") from error
    if not obj.metadata.name:
        raise ConfigError(f"a {document.get('kind')} in the dump has no name")
    return obj


def _name_of(document: Document) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, Mapping) else "without metadata"


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _is(document: Document, group: str, kind: str) -> bool:
    return document.get("kind") == kind and api_group(str(document["apiVersion"])) == group


def _is_namespace(obj: PartialObject) -> bool:
    return obj.kind == "Namespace" and not obj.group


def _known_resources(documents: Iterable[Document]) -> dict[tuple[str, str], GroupResource]:
    known = {}
    for document in documents:
        if document.get("kind") == _RESOURCES:
            for group, resource in _served(document):
                if "/" not in resource.name:
                    known[group, resource.kind] = GroupResource(group, resource.name)
    return known


def _served(document: Document) -> Iterator[tuple[str, _Resource]]:
    try:
        served = msgspec.convert(document, _Served)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{_RESOURCES}: {error}") from error
    for resource in served.resources:
        yield resource.group or api_group(served.group_version), resource


_SAME_IN_PLURAL = ("endpoints",)
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_VOWELS = frozenset("aeiou")


def resource_of(
    api_version: str, kind: str, known: Mapping[tuple[str, str], GroupResource]
) -> GroupResource:
    """Return the resource of a kind: from `known`, by group and kind, or else the usual plural."""
    group = api_group(api_version)
    return known.get((group, kind)) or GroupResource(group, plural_of(kind))


def plural_of(kind: str) -> str:
    """Return the lower-case plural by the rules of English: `networkpolicies`, `ingresses`.

    Source: the rules of CRD generators for kinds without an explicit plural.  (apimachinery's
    UnsafeGuessKindToResource does not know `gateways`.)
    """
    singular = kind.lower()
    if singular.endswith(_SAME_IN_PLURAL):
        return singular
    if singular.endswith(_SIBILANTS):
        return f"{singular}es"
    if singular.endswith("y") and singular[-2:-1] not in _VOWELS:
        return f"{singular[:-1]}ies"
    return f"{singular}s"
