"""`sharder dump`: what a plan needs to know of a ring, and nothing else."""

from collections.abc import Iterator

import msgspec

from sharder import names
from sharder.api.meta import Json, ObjectMeta, PartialObject
from sharder.api.ring import ControllerRing
from sharder.cli.live import Cluster, View, objects_of, view_of
from sharder.kube.stores import RINGS
from sharder.names import API_GROUP, API_VERSION, next_annotation

_READ = frozenset(value for name, value in vars(names).items() if name.endswith("_ANNOTATION"))
"""Annotations by which objects are placed; others may hold the data of the object."""


async def dump(cluster: Cluster, *, name: str) -> bytes:
    """Return a ring, its Leases and the metadata of its objects in scope, as lines of JSON.

    Raises:
        ConfigError: there is no such ring.
        ApiError: its objects cannot be read.
    """
    view = await view_of(cluster, name)
    served = [await cluster.objects.find(resource) for resource in view.snapshot.roles]
    objects = await objects_of(cluster, view.snapshot, view.snapshot.roles)
    kinds: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "APIResourceList",
            "groupVersion": "/".join(filter(None, (each.id.group, each.version))),
            "resources": [{"name": each.id.resource, "kind": each.kind}],
        }
        for each in served
    ]
    known = (_ring(view.snapshot.ring), *_leases(view), *kinds)
    found = (_object(view, obj) for _, obj in objects)
    return b"".join(msgspec.json.encode(each) + b"\n" for each in (*known, *found))


def _ring(ring: ControllerRing) -> Json:
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": RINGS.kind,
        "metadata": {"name": ring.name, "generation": ring.metadata.generation},
        "spec": msgspec.to_builtins(ring.spec),
        "status": msgspec.to_builtins(ring.status),
    }


def _leases(view: View) -> Iterator[Json]:
    for lease in view.leases:
        yield {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": msgspec.to_builtins(lease.metadata),
            "spec": msgspec.to_builtins(lease.spec),
        }


def _object(view: View, obj: PartialObject) -> Json:
    read = _READ | {next_annotation(view.snapshot.name)}
    there = obj.metadata.annotations or {}
    meta: ObjectMeta = msgspec.structs.replace(
        obj.metadata, annotations={key: value for key, value in there.items() if key in read}
    )
    return {
        "apiVersion": obj.api_version,
        "kind": obj.kind,
        "metadata": msgspec.to_builtins(meta),
    }
