"""Plan without a cluster, from a dump: a file with a ControllerRing, its Leases and its objects.

The file is a YAML or JSON stream, as several calls of `kubectl get -o yaml` write it.  The
resource of a kind is in a list of resources in the file, or else follows from the usual plural.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import PartialObject, Resource, api_group
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError
from sharder.core.names import API_GROUP, EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE, GroupResource
from sharder.core.placement.strategy import CustomFunction
from sharder.core.plan.observe import members_of, selected_namespaces, states_of
from sharder.core.plan.plan import PlanReport, plan_ring, report
from sharder.core.plan.what_if import AS_IT_IS, WhatIf
from sharder.core.ring.build import build

Document: TypeAlias = Mapping[str, object]

_LIST: Final = "List"
_RESOURCES: Final = "APIResourceList"
_TEXT: Final = re.compile(r"\S")


class _Resource(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str


class _Served(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An APIResourceList of the API server's discovery."""

    group_version: str
    resources: tuple[_Resource, ...] = ()


_Decoded = TypeVar("_Decoded", ControllerRing, Lease, PartialObject, _Served)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The contents of a file."""

    ring: ControllerRing
    leases: list[Lease]
    namespaces: list[PartialObject]
    objects: list[tuple[Resource, PartialObject]]
    """All objects, each with its resource, in any order."""

    def newest_renewal(self) -> datetime:
        """Return the newest renewTime in the file, the epoch if there is none."""
        times = (parse_time(lease.spec.renew_time) for lease in self.leases)
        return max(filter(None, times), default=datetime.fromtimestamp(0, UTC))


def plan_dump(
    dump: Dump,
    now: datetime,
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
        what_if: Differences to the ring and its Leases in the file.
        custom: The installed strategies, by name.

    Raises:
        ConfigError: `what_if` is not possible.
    """
    ring = what_if.ring(dump.ring)
    leases = what_if.leases(ring, dump.leases, now)
    namespaces = selected_namespaces(ring, dump.namespaces)
    if not dump.namespaces:
        present = frozenset(obj.metadata.namespace for _, obj in dump.objects)
        namespaces = present - {EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE}
    snapshot = build(
        ring,
        members=members_of(ring, leases),
        namespaces=namespaces,
        served=(resource for resource, _ in dump.objects),
        custom=custom,
    )
    objects = [(snapshot.roles.get(resource.id), obj) for resource, obj in dump.objects]
    plan = plan_ring(
        snapshot, [(role, obj) for role, obj in objects if role and snapshot.selects(obj, role)]
    )
    states = states_of(snapshot.members, leases, now)
    return report(snapshot, plan, states, is_exact=what_if.is_exact)


def decode_dump(data: bytes) -> Dump:
    """Return the contents of the file; if an object occurs twice, the last one counts.

    Raises:
        ConfigError: The file is neither YAML nor JSON, an object in it cannot be decoded, or it
            does not contain exactly one ControllerRing.
    """
    documents = [item for document in parse_stream(data) for item in _flatten(document)]
    known = _known_resources(documents)
    rings, leases = list[ControllerRing](), dict[object, Lease]()
    objects = dict[object, tuple[Resource, PartialObject]]()
    for document in documents:
        if document["kind"] == _RESOURCES:
            continue
        obj = _decode(document, PartialObject)
        if not obj.metadata.name:
            raise ConfigError(f"a {obj.kind} in the dump has no name")
        resource = known.get((obj.group, obj.kind)) or plural_of(obj.kind)
        id_, namespaced = GroupResource(obj.group, resource), bool(obj.metadata.namespace)
        served = Resource(id=id_, version="", kind=obj.kind, namespaced=namespaced)
        objects[id_, obj.metadata.ref] = served, obj
        if (obj.group, obj.kind) == (API_GROUP, "ControllerRing"):
            rings.append(_decode(document, ControllerRing))
        if (obj.group, obj.kind) == ("coordination.k8s.io", "Lease"):
            leases[obj.metadata.ref] = _decode(document, Lease)
    if len(rings) != 1:
        names = ", ".join(ring.name for ring in rings) or "none"
        raise ConfigError(f"a dump must contain exactly one ControllerRing, found: {names}")
    return Dump(
        ring=rings[0],
        leases=list(leases.values()),
        namespaces=[it for _, it in objects.values() if (it.group, it.kind) == ("", "Namespace")],
        objects=list(objects.values()),
    )


def parse_stream(data: bytes) -> list[object]:
    """Return the documents of a stream: YAML, or JSON values one after the other.

    The elements of a JSON array count as documents; an empty document is None.

    Raises:
        ConfigError: The data is neither YAML nor JSON.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8: {error}") from error
    try:
        if text.lstrip()[:1] in {"{", "["}:
            return list(_parse_json(text))
    except json.JSONDecodeError:
        pass  # YAML can begin like that too
    except RecursionError as error:
        raise ConfigError("it is nested too deeply") from error
    return _parse_yaml(text)


def _parse_yaml(text: str) -> list[object]:
    import yaml  # noqa: PLC0415 - JSON starts faster

    class Loader(yaml.CSafeLoader):
        """A loader that reads times as text, as Kubernetes has them, even without quotes."""

    Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)
    try:
        return list(yaml.load_all(text, Loader=Loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"it is neither YAML nor JSON: {' '.join(str(error).split())}"
        ) from error


def _parse_json(text: str) -> Iterator[object]:
    decoder, position = json.JSONDecoder(), 0
    while (found := _TEXT.search(text, position)) is not None:
        document, position = decoder.raw_decode(text, found.start())
        yield from document if isinstance(document, list) else (document,)


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
    items = obj["items"]
    for item in items if isinstance(items, list) else ():
        yield from _flatten(item, of.removesuffix(_LIST), "" if of == _LIST else version)


def _decode(document: Document, of: type[_Decoded]) -> _Decoded:
    """Decode an object; null counts as absent, as in the API server."""
    wanted = {field.encode_name for field in msgspec.structs.fields(of)}
    plain = {name: _without_nulls(value) for name, value in document.items() if name in wanted}
    try:
        return msgspec.convert(plain, of)
    except msgspec.ValidationError as error:
        metadata = document.get("metadata")
        name = f" {metadata.get('name')}" if isinstance(metadata, Mapping) else ""
        raise ConfigError(f"{document['kind']}{name}: {error}") from error


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _known_resources(documents: Iterable[Document]) -> dict[tuple[str, str], str]:
    """Return the resources that the file lists, by group and kind."""
    found = (_decode(it, _Served) for it in documents if it["kind"] == _RESOURCES)
    return {
        (api_group(served.group_version), resource.kind): resource.name
        for served in found
        for resource in served.resources
        if "/" not in resource.name
    }


def plural_of(kind: str) -> str:
    """Return the lower-case plural by the rules of English: `networkpolicies`, `ingresses`.

    Source: the rules of CRD generators for kinds without an explicit plural.  (apimachinery's
    UnsafeGuessKindToResource does not know `gateways`.)
    """
    singular = kind.lower()
    if singular.endswith("endpoints"):
        return singular
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return f"{singular}es"
    if re.search(r"(^|[^aeiou])y$", singular):
        return f"{singular[:-1]}ies"
    return f"{singular}s"
