"""Facts about `core.ring.snapshot` and `core.ring.build`: roles, scope, equal decisions."""

from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject, Resource
from sharder.core.api.ring import (
    Condition,
    ControlledResource,
    ControllerRing,
    HashKey,
    RingResource,
    RingSpec,
    RingStatus,
)
from sharder.core.api.selector import LabelSelector
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.shard import Shard
from sharder.core.names import GroupResource
from sharder.core.ring.build import build, roles_of
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.counting import bounded
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    NEXT,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    available,
    members,
    obj,
    ring,
    snapshot,
)

TEAM = frozenset({"team"})


def test_every_resource_has_its_role() -> None:
    assert roles_of(ring()) == {
        WIDGETS: Role.MAIN,
        SECRETS: Role.LEADING,
        CONFIGMAPS: Role.CONTROLLED,
    }


def test_a_resource_listed_as_main_and_as_controlled_counts_as_main() -> None:
    both = RingSpec(
        resources=(
            RingResource(resource="a", controlled_resources=(ControlledResource(resource="b"),)),
            RingResource(resource="b"),
        )
    )

    roles = roles_of(ControllerRing(metadata=ring().metadata, spec=both))

    assert roles[GroupResource("", "b")] is Role.MAIN


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


def test_a_ring_is_read_as_in_the_reference() -> None:
    text = """{"metadata": {"name": "demo", "generation": 3}, "spec": {
        "resources": [{"group": "apps", "resource": "deployments",
            "controlledResources": [{"group": "", "resource": "pods"}]}],
        "namespaceSelector": {"matchLabels": {"x": "y"}}},
        "status": {"shards": 2, "availableShards": 1, "observedGeneration": 3}}"""

    decoded = msgspec.json.decode(text, type=ControllerRing)

    assert roles_of(decoded) == {
        GroupResource("apps", "deployments"): Role.LEADING,
        GroupResource("", "pods"): Role.CONTROLLED,
    }
    assert decoded.spec.namespace_selector is not None
    assert decoded.spec.namespace_selector.matches({"x": "y"})
    assert decoded.status == RingStatus(observed_generation=3, shards=2, available_shards=1)


def test_objects_are_placed_on_available_shards_alone() -> None:
    mixed = members(
        {A: Standing.AVAILABLE, B: Standing.LEAVING, C: Standing.MISSING},
        stranger=Standing.MISSING,
    )

    assert snapshot(mixed).placer.layout.names == {A}


def test_the_hash_ring_is_built_anew_only_for_other_shards() -> None:
    first = snapshot(available(A, B))

    same = build(ring(), members=available(B, A), namespaces=TEAM, previous=first)
    other = build(ring(), members=available(A), namespaces=TEAM, previous=first)

    assert same.placer.strategy is first.placer.strategy
    assert other.placer.strategy is not first.placer.strategy
    assert other.placer.layout.names == {A}


def test_the_ring_wants_nothing_for_an_object_without_key() -> None:
    assert snapshot().wanted(None) is None
    assert snapshot(available()).wanted("/Secret/default/s") is None
    assert snapshot().wanted("/Secret/default/s") in {A, B}


def test_main_objects_are_hashed_by_their_own_key_and_controlled_ones_by_their_controllers() -> (
    None
):
    controlled = obj(CONFIGMAPS, "c", controlled_by="s")

    assert snapshot().key_of(obj(SECRETS, "s"), Role.LEADING) == "/Secret/default/s"
    assert snapshot().key_of(obj(name="w"), Role.MAIN) == "example.com/Widget/default/w"
    assert snapshot().key_of(controlled, Role.CONTROLLED) == "/Secret/default/s"
    assert snapshot().key_of(obj(CONFIGMAPS), Role.CONTROLLED) is None


NODES = Resource(id=GroupResource("", "nodes"), version="v1", kind="Node", namespaced=False)
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


def test_objects_hashed_by_namespace_share_a_key_there_with_what_they_control() -> None:
    now = hashing_by_namespace()
    child = obj(CONFIGMAPS, "c", controlled_by="s", namespace="team")

    assert now.key_of(obj(SECRETS, "s", namespace="team"), Role.LEADING) == "/Secret/team/"
    assert now.key_of(child, Role.CONTROLLED) == "/Secret/team/"
    assert now.controller_key(child) == "/Secret/team/s"
    assert now.key_of(obj(name="w", namespace="team"), Role.MAIN) == "example.com/Widget/team/w"


def test_an_owner_without_namespace_is_hashed_without_it() -> None:
    resource = RingResource(
        resource="nodes", controlled_resources=(ControlledResource(resource="configmaps"),)
    )
    of = ControllerRing(metadata=ring().metadata, spec=RingSpec(resources=(resource,)))
    now = build(of, members=available(A), namespaces=TEAM, served=[NODES])
    owner = OwnerReference(api_version="v1", kind="Node", name="n", controller=True)
    child = PartialObject(
        api_version="v1",
        kind="ConfigMap",
        metadata=ObjectMeta(name="c", namespace="team", owner_references=[owner]),
    )

    assert now.key_of(child, Role.CONTROLLED) == now.controller_key(child) == "/Node//n"


def test_what_is_served_of_other_resources_makes_no_difference() -> None:
    plain = build(ring(), members=available(A), namespaces=TEAM)
    known = build(ring(), members=available(A), namespaces=TEAM, served=[NODES])

    assert known.decides_like(plain)
    assert not hashing_by_namespace().decides_like(plain)


def test_a_ring_with_an_object_selector_looks_after_what_it_matches() -> None:
    spec = RingSpec(object_selector=LabelSelector(match_labels={"app": "web"}))
    now = build(
        ControllerRing(metadata=ring().metadata, spec=spec),
        members=available(A),
        namespaces=TEAM,
    )

    assert now.selects(obj(namespace="team", labels={"app": "web"}))
    assert not now.selects(obj(namespace="team", labels={"app": "db"}))
    assert not now.selects(obj(namespace="team", labels={"app": "db"}, owner=A))
    assert not now.selects(obj(namespace="other", labels={"app": "web"}))


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


def test_what_is_controlled_is_in_scope_with_its_controller_and_by_its_namespace_alone() -> None:
    spec = msgspec.structs.replace(
        ring().spec, object_selector=LabelSelector(match_labels={"app": "web"})
    )
    now = build(
        ControllerRing(metadata=ring().metadata, spec=spec),
        members=available(A),
        namespaces=TEAM,
    )

    assert now.selects(obj(CONFIGMAPS, namespace="team"), Role.CONTROLLED)
    assert not now.selects(obj(CONFIGMAPS, namespace="other"), Role.CONTROLLED)
    assert not now.selects(obj(SECRETS, namespace="team"), Role.LEADING)


def test_an_annotation_that_names_no_shard_directs_nowhere() -> None:
    assert snapshot().direction_of(obj(annotations={NEXT: B})) == B
    assert snapshot().direction_of(obj(annotations={NEXT: "no name/"})) is None
    assert snapshot().direction_of(obj()) is None


def test_an_empty_owner_label_is_no_owner_but_an_empty_drain_label_is_a_drain() -> None:
    assert snapshot().owner_of(obj(owner=A)) == A
    assert snapshot().owner_of(obj(owner="")) is None
    assert snapshot().owner_of(obj()) is None
    assert snapshot().is_draining(obj(drain=""))
    assert not snapshot().is_draining(obj())


def test_objects_are_in_scope_by_their_namespace_and_cluster_scoped_ones_always() -> None:
    now = build(ring(), members=available(A), namespaces=TEAM)

    assert now.selects(obj(namespace="team"))
    assert now.selects(obj(namespace=""))
    assert not now.selects(obj(namespace="kube-system"))


def test_a_namespace_is_in_scope_by_its_own_labels() -> None:
    now = build(ring(), members=available(A), namespaces=TEAM)

    def namespace(name: str, api_version: str = "v1") -> PartialObject:
        meta = ObjectMeta(name=name)
        return PartialObject(api_version=api_version, kind="Namespace", metadata=meta)

    assert now.selects(namespace("team"))
    assert not now.selects(namespace("kube-system"))
    assert now.selects(namespace("kube-system", api_version="example.com/v1"))


def test_the_labels_of_a_snapshot_are_those_of_its_ring() -> None:
    now = snapshot()

    assert now.name == DEMO
    assert now.owner_label.endswith("/demo")
    assert now.drain_label.endswith("/demo")
    assert now.next_annotation.endswith("/demo")
    assert len({now.owner_label, now.drain_label, now.next_annotation}) == 3


def test_the_status_of_a_ring_makes_no_other_decisions() -> None:
    condition = Condition(type="Ready", status="True")
    after = msgspec.structs.replace(ring(), status=RingStatus(shards=3, conditions=(condition,)))

    assert snapshot().decides_like(replace(snapshot(), ring=after))


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

    assert first.decides_like(second) is alike
    assert (first.placer.strategy is second.placer.strategy) is alike


def test_a_capacity_matters_to_a_strategy_that_sticks() -> None:
    first = build(bounded(), members=available(A), namespaces=TEAM)
    full = replace(first.members, shards={A: Shard(name=A, capacity={"objects": Decimal(1)})})

    second = build(bounded(), members=full, namespaces=TEAM, previous=first)

    assert not first.decides_like(second)
    assert second.tally is first.tally


@pytest.mark.parametrize(
    "other",
    [
        replace(snapshot(), ring=ring(generation=2)),
        replace(snapshot(), ring=ring(uid="another")),
        replace(snapshot(), namespaces=frozenset()),
        snapshot(available(A)),
        snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING})),
        snapshot(members({A: Standing.AVAILABLE, B: Standing.AVAILABLE, C: Standing.MISSING})),
        snapshot(
            Members(
                standings={A: Standing.AVAILABLE, B: Standing.AVAILABLE},
                stranger=Standing.MISSING,
                namespaces={A: "default", B: "default"},
            )
        ),
    ],
    ids=["spec", "ring", "namespaces", "left", "missing", "known", "strangers"],
)
def test_whatever_steps_depend_on_makes_other_decisions(other: RingSnapshot) -> None:
    assert not snapshot().decides_like(other)
