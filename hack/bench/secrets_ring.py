"""A ring of Secrets whose shards already have objects, and reviews of new objects."""

import json
from typing import Final

from sharder.core.api.meta import Json, ObjectMeta, Resource
from sharder.core.api.ring import (
    ControllerRing,
    GroupBy,
    PlacementSpec,
    RingResource,
    RingSpec,
    StrategyName,
)
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.shard import Shard
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.placement.counts import Entry
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from webhook.review_codec import decode

RING: Final = RingName("my-ring")
SECRETS: Final = GroupResource("", "secrets")
SERVED: Final = Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True)

OBJECTS_PER_SHARD: Final = 20
"""Existing objects of each shard, in groups of `GROUP`."""
GROUP: Final = 10
GROUPS: Final = {StrategyName.SPREAD, StrategyName.LEAST_LOADED, StrategyName.CUSTOM}
"""The strategies that use `groupBy`."""
STRATEGIES: Final = tuple(name for name in StrategyName if name is not StrategyName.CUSTOM)


def snapshot_of(strategy: StrategyName, shards: int) -> RingSnapshot:
    """Return a ring that places Secrets by this strategy on shards in three zones."""
    placement = PlacementSpec(
        strategy=strategy,
        group_by=GroupBy(labels=("app",)) if strategy in GROUPS else GroupBy(),
    )
    resources = (RingResource(resource=SECRETS.resource),)
    names = [ShardName(f"my-operator-{number:04}") for number in range(shards)]
    return build(
        ControllerRing(
            metadata=ObjectMeta(name=RING, uid="ring-uid"),
            spec=RingSpec(resources=resources, placement=placement),
        ),
        members=Members(
            standings=dict.fromkeys(names, Standing.AVAILABLE),
            stranger=Standing.GONE,
            namespaces=dict.fromkeys(names, "default"),
            shards={n: Shard(name=n, zone=f"zone-{i % 3}") for i, n in enumerate(names)},
        ),
        namespaces=frozenset({"default"}),
        served=[SERVED],
    )


def filled(strategy: StrategyName, shards: int) -> RingSnapshot:
    """Return a ring of Secrets with shards, and with objects if its strategy counts them."""
    snapshot = snapshot_of(strategy, shards)
    tally = snapshot.tally
    if tally is None:
        return snapshot
    names = sorted(snapshot.members.standings)
    # Half of the shards have one object less, so there is room below an automatic ceiling.
    for number in range(len(names) * OBJECTS_PER_SHARD - len(names) // 2):
        review = decode(request(f"old-{number}", number // GROUP).encode()).review
        assert review is not None  # noqa: S101 - the review is our own
        groups = snapshot.entry_of(review.obj).groups
        entry = Entry(names[number % len(names)], groups)
        tally.see(SECRETS, snapshot.identity_of(review.obj), entry)
    tally.synced = True
    return snapshot


def request(name: str, group: int, *, data: int = 720) -> str:
    """Return the review of a create as the API server sends it; by default it has about 1.9 KB."""
    labels = {"app": f"app-{group}", "app.kubernetes.io/managed-by": "Helm"}
    obj: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "00000000-0000-4000-8000-000000000000",
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "labels": labels,
            "managedFields": [
                {
                    "manager": "helm",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-03-01T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}},
                }
            ],
        },
        "data": {"key": "c2VjcmV0" * (data // 8)},
        "type": "Opaque",
    }
    return json.dumps(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "", "version": "v1", "kind": "Secret"},
                "resource": {"group": "", "version": "v1", "resource": "secrets"},
                "name": name,
                "namespace": "default",
                "operation": "CREATE",
                "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
                "object": obj,
                "oldObject": None,
                "dryRun": False,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        }
    )
