"""Facts about `core.ring.snapshot` and `core.ring.build`: roles, scope, equal decisions."""

from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from sharder.core.api.meta import LabelSelector, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControllerRing, HashKey, RingResource, RingSpec
from sharder.core.leases.membership import Standing
from sharder.core.leases.shard import Shard
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.values import (
    CONFIGMAPS,
    SECRETS,
    A,
    B,
    C,
    available,
    members,
    obj,
    ring,
    snapshot,
)

SECRET = Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True)


def hashing_by_namespace() -> RingSnapshot:
    """The ring, with Secrets hashed by their namespace."""
    resources = tuple(
        msgspec.structs.replace(resource, hash_key=HashKey.NAMESPACE)
        if resource.id == SECRETS
        else resource
        for resource in ring().spec.resources
    )
    of = ControllerRing(metadata=ring().metadata, spec=RingSpec(resources=resources))
    return build(of, members=available(A), namespaces=TEAM, served=[SECRET])


TEAM = frozenset({"team"})


def test_what_is_never_sharded_has_no_role_whatever_the_ring_lists() -> None:
    lease = {"group": "coordination.k8s.io", "resource": "leases"}
    spec = {
        "resources": [
            lease,
            {"group": "*", "resource": "*"},
            {"resource": "secrets", "controlledResources": [lease]},
        ]
    }
    listing = msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)

    built = build(listing, members=available(A), namespaces=TEAM)

    assert built.roles == {SECRETS: Role.MAIN}
    assert built.resources == (RingResource(resource="secrets"),)
    assert built.ring is listing


@pytest.mark.parametrize(("owner", "stays"), [(A, True), (None, False)])
def test_an_object_that_a_shard_has_stays_in_scope_while_it_is_being_deleted(
    owner: str | None, stays: bool
) -> None:
    spec = RingSpec(object_selector=LabelSelector(match_labels={"app": "web"}))
    now = build(
        ControllerRing(metadata=ring().metadata, spec=spec),
        members=available(A),
        namespaces=TEAM,
    )
    ending = obj(namespace="team", owner=owner)
    meta = msgspec.structs.replace(ending.metadata, deletion_timestamp="2026-01-01T00:00:00Z")

    assert now.selects(msgspec.structs.replace(ending, metadata=meta)) is stays


def test_a_namespace_is_in_scope_by_its_own_labels() -> None:
    now = build(ring(), members=available(A), namespaces=TEAM)

    def namespace(name: str, api_version: str = "v1") -> PartialObject:
        meta = ObjectMeta(name=name)
        return PartialObject(api_version=api_version, kind="Namespace", metadata=meta)

    assert now.selects(namespace("team"))
    assert not now.selects(namespace("kube-system"))
    assert now.selects(namespace("kube-system", api_version="example.com/v1"))


@pytest.mark.parametrize(
    ("said", "alike"),
    [
        (Shard(name=A, capacity={"cpu": Decimal(4)}), True),
        (Shard(name=A, ready=False), True),
        (Shard(name=A, weight=2.0), False),
        (Shard(name=A, zone="z"), False),
        (Shard(name=A, cordoned=True), False),
    ],
)
def test_what_a_shard_says_matters_to_a_strategy_that_follows_but_for_its_capacity(
    said: Shard, alike: bool
) -> None:
    first = snapshot()
    described = replace(first.members, shards={A: said})

    second = build(
        ring(), members=described, namespaces=first.namespaces, served=(), previous=first
    )

    assert (first.epoch is second.epoch) is alike
    assert (first.placer.strategy is second.placer.strategy) is alike


@pytest.mark.parametrize(
    "other",
    [
        build(ring(generation=2), members=available(A, B), namespaces=frozenset()),
        build(ring(uid="another"), members=available(A, B), namespaces=frozenset()),
        snapshot(available(A)),
        snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING})),
        snapshot(members({A: Standing.AVAILABLE, B: Standing.AVAILABLE, C: Standing.MISSING})),
        snapshot(replace(available(A, B), stranger=Standing.MISSING)),
    ],
    ids=["spec", "ring", "left", "missing", "known", "strangers"],
)
def test_whatever_steps_depend_on_makes_other_decisions(other: RingSnapshot) -> None:
    assert snapshot().epoch != other.epoch


def test_objects_hashed_by_namespace_share_a_key_there_with_what_they_control() -> None:
    now = hashing_by_namespace()
    child = obj(CONFIGMAPS, "c", controlled_by="s", namespace="team")

    assert now.key_of(obj(SECRETS, "s", namespace="team"), Role.LEADING) == "/Secret/team/"
    assert now.key_of(child, Role.CONTROLLED) == "/Secret/team/"
    assert now.controller_key(child) == "/Secret/team/s"
    assert now.key_of(obj(name="w", namespace="team"), Role.MAIN) == "example.com/Widget/team/w"
