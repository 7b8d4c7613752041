"""Manifests of what tests, demo and benchmarks create themselves: rings, shards, namespaces."""

from collections.abc import Mapping
from datetime import UTC, datetime

from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.names import API_GROUP, API_VERSION, RING_LABEL


def namespace(name: str, labels: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Return a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**(labels or {})}},
    }


def ring(name: str, spec: Mapping[str, Json]) -> dict[str, Json]:
    """Return a ControllerRing."""
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": "ControllerRing",
        "metadata": {"name": name},
        "spec": {**spec},
    }


def lease(name: str, ring: str, namespace: str, *, seconds: int = 3600) -> dict[str, Json]:
    """Return the Lease of a shard that has just renewed it, by default for an hour."""
    now = format_time(datetime.now(UTC))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "labels": {RING_LABEL: ring}},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "acquireTime": now,
            "renewTime": now,
        },
    }
