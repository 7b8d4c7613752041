"""`sharder dump` writes what a plan needs of a ring; `sharder plan --file` plans from it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sharder.cli.cluster_view import Cluster, View, objects_of, view_of
from sharder.config import Settings
from sharder.config.strategies import installed
from sharder.core import names
from sharder.core.api.lease import parse_time
from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError
from sharder.core.names import API_GROUP, API_VERSION, next_annotation
from sharder.core.preview.dump import decode_dump, plan_dump
from sharder.core.preview.report import PlanReport
from sharder.core.preview.what_if import WhatIf
from sharder.kube.stores import RINGS


def plan(file: Path, now: str | None, what_if: WhatIf) -> PlanReport:
    """Return the plan for a dump; `-` stands for stdin.

    Raises:
        ConfigError: the file cannot be read or decoded, `now` is not a time, or `what_if` is not
            possible.
    """
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    instant = parse_time(now)
    if now is not None and instant is None:
        raise ConfigError(f"--now {now} is not a time such as 2026-03-01T12:00:00Z")
    try:
        dump = decode_dump(data)
    except ConfigError as error:
        raise ConfigError(f"cannot plan from {file}: {error}") from error
    default = Settings().webhook.config.namespace_selector
    return plan_dump(
        dump, instant or dump.newest_renewal(), default, what_if=what_if, custom=installed()
    )


_READ = frozenset(value for name, value in vars(names).items() if name.endswith("_ANNOTATION"))
"""Annotations that placement uses; others can hold data of the object."""


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
