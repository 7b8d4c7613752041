"""`sharder dump`: write the input of a ring's plan, for `sharder plan --file`."""

import sys
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import objects_of, view_of
from sharder.core import names
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.names import next_annotation
from sharder.kube.typed_stores import LEASES, RINGS

_READ: Final = frozenset(
    value for name, value in vars(names).items() if name.endswith("_ANNOTATION")
)
"""Annotations that placement uses; other annotations can contain data of the object."""


async def write_dump(cluster: Cluster, *, name: str) -> None:
    """Print a ring, its Leases, the namespaces, and the metadata of its objects in scope.

    Each document is one line of JSON, and is printed as soon as it is read.

    Raises:
        ConfigError: there is no such ring.
        ApiError: the ring's objects cannot be read.
    """
    view = await view_of(cluster, name)
    snapshot = view.snapshot
    kept = _READ | {next_annotation(snapshot.name)}
    named = ObjectMeta(name=snapshot.name, generation=snapshot.ring.metadata.generation)
    _print(_stored(RINGS, replace(snapshot.ring, metadata=named)))
    for lease in view.leases:
        _print(_stored(LEASES, lease))
    async for namespace in cluster.namespaces.stream():
        _print(_object(namespace, frozenset()))
    for resource in snapshot.roles:
        _print(_kind(await cluster.objects.find(resource)))
    async for _, obj in objects_of(cluster, snapshot):
        _print(_object(obj, kept))


def _print(document: Json) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")


def _stored(of: Resource, obj: ControllerRing | Lease) -> Json:
    """Return a ring or a Lease as a manifest."""
    fields: dict[str, Json] = msgspec.to_builtins(obj)
    return {**fields, "apiVersion": of.api_version, "kind": of.kind}


def _kind(served: Resource) -> Json:
    """Return the resource of a kind, in the form of the API server's discovery."""
    return {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": served.api_version,
        "resources": [{"name": served.id.resource, "kind": served.kind}],
    }


def _object(obj: PartialObject, kept: frozenset[str]) -> Json:
    """Return the metadata of an object, with only the annotations in `kept`."""
    annotations: Mapping[str, str] = obj.metadata.annotations or {}
    meta: ObjectMeta = replace(
        obj.metadata, annotations={key: annotations[key] for key in annotations if key in kept}
    )
    return {
        "apiVersion": obj.api_version,
        "kind": obj.kind,
        "metadata": msgspec.to_builtins(meta),
    }
