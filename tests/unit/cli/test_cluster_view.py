"""Facts about `cli.cluster_view` and `cli.explain`: what is read and made of it."""

import pytest

from sharder.cli import plan_tables, tables
from sharder.cli.cluster_view import rings, shards
from sharder.cli.explain import explain
from sharder.cli.plan import plan
from sharder.cli.reports import ApartView
from sharder.core.api.meta import Json, Resource
from sharder.core.api.ring import (
    GroupBy,
    MovementSpec,
    PlacementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    StrategyName,
)
from sharder.core.errors import ConfigError, Forbidden, NotFound
from sharder.core.movement.step import Action
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    LOAD_ANNOTATION,
    POOL_ANNOTATION,
    POOL_LABEL,
    REGION_LABEL,
    REVISION_LABEL,
    WANTED_ZONE_LABEL,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    ObjectRef,
    pin_label,
)
from sharder.core.preview.what_if import WhatIf
from tests.support.read_cluster import RESOURCES, ReadCluster, as_body
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    lease,
    named,
    obj,
    snapshot,
)


async def test_rings_are_counted() -> None:
    fake = await ReadCluster().filled()
    await fake.add(WIDGETS, obj(WIDGETS, "one", owner=A, drain="true"))
    await fake.add(WIDGETS, obj(WIDGETS, "two"))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "controlled by nothing"))

    (row,) = (await rings(fake.cluster)).rings

    assert (row.name, row.shards, row.available_shards, row.ready) == (DEMO, 2, 2, "Unknown")
    assert (row.objects, row.unassigned, row.unowned) == (2, 1, 1)
    assert (row.draining, row.problem) == (1, None)
    assert row.resources == ("configmaps", "secrets", "widgets.example.com")


async def test_a_ring_whose_resource_is_not_served_is_listed_with_its_problem() -> None:
    fake = await ReadCluster(*RESOURCES[1:]).filled()

    (row,) = (await rings(fake.cluster)).rings

    assert (row.objects, row.problem) == (
        None,
        "the API server does not serve widgets.example.com",
    )


UNREADABLE = "cannot read secrets: no right to list them"


async def unreadable() -> ReadCluster:
    """A ring whose status says that the sharder cannot read it."""
    fake = await ReadCluster().filled()
    failed: Json = {"type": "Ready", "status": "False", "message": UNREADABLE}
    await fake.rings.patch(ObjectRef("", DEMO), {"status": {"conditions": [failed]}})
    return fake


async def test_a_ring_that_is_not_ready_says_why_wherever_it_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = await unreadable()

    (row,) = (await rings(fake.cluster)).rings
    tables.shards(await shards(fake.cluster, name=DEMO))
    plan_tables.plan(await plan(fake.cluster, name=DEMO))

    assert (row.ready, row.problem) == ("False", UNREADABLE)
    assert capsys.readouterr().out.count(f"{DEMO}: {UNREADABLE}\n") == 2


async def test_a_ring_that_can_have_no_objects_says_why_before_a_sharder_has_seen_it() -> None:
    fake = await ReadCluster().filled()
    leases: Json = [{"group": "coordination.k8s.io", "resource": "leases"}]
    await fake.rings.patch(ObjectRef("", DEMO), {"spec": {"resources": leases}})

    (row,) = (await rings(fake.cluster)).rings
    report = await shards(fake.cluster, name=DEMO)

    assert row.objects == report.objects == 0
    assert row.problem is not None
    assert "they make shards and elect leaders" in row.problem
    assert report.problem == row.problem


async def test_shards_have_their_state_and_their_objects() -> None:
    fake = await ReadCluster().filled()
    await fake.leases.create("default", as_body(lease(C, renewed=None)))
    await fake.leases.create("default", as_body(lease("other", of="other")))
    await fake.add(WIDGETS, obj(WIDGETS, "one", owner=A))
    await fake.add(WIDGETS, obj(WIDGETS, "two", owner="no-such-shard"))

    report = await shards(fake.cluster, name=DEMO)

    rows = [(row.name, row.state, row.available, row.objects) for row in report.shards]
    assert rows == [(A, "late", True, 1), (B, "late", True, 0), (C, "leaving", False, 0)]
    assert [row.renewed_seconds_ago for row in report.shards] == [20.0, 20.0, None]
    assert [row.problem is None for row in report.shards] == [True, True, False]
    assert (report.objects, report.unassigned, report.unowned) == (2, 0, 1)


async def test_a_plan_of_a_cluster_lets_children_follow_their_owners() -> None:
    fake = await ReadCluster().filled()
    name = named(SECRETS, B, snapshot())
    await fake.add(SECRETS, obj(SECRETS, name, owner=A))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "child", controlled_by=name))
    await fake.add(WIDGETS, obj(WIDGETS, "out of scope", namespace="elsewhere"))

    report = await plan(fake.cluster, name=DEMO)

    assert {a.object: (a.action, a.to) for a in report.assignments} == {
        "/ConfigMap/default/child": (Action.ASSIGN, B),
        f"/Secret/default/{name}": (Action.DRAIN, B),
    }


async def test_a_plan_for_more_shards_counts_what_follows_its_owner_there() -> None:
    fake = await ReadCluster().filled()
    for number in range(12):
        owner = snapshot().wanted(f"/Secret/default/s{number}")
        await fake.add(SECRETS, obj(SECRETS, f"s{number}", owner=owner))
        child = obj(CONFIGMAPS, f"c{number}", owner=owner, controlled_by=f"s{number}")
        await fake.add(CONFIGMAPS, child)

    report = await plan(fake.cluster, name=DEMO, what_if=WhatIf(add=1))

    to = {each.object.rpartition("/")[2]: each.to for each in report.assignments}
    assert "demo-new-1" in to.values()
    assert [n for n in range(12) if to[f"c{n}"] != to[f"s{n}"]] == []
    moved = [a for a in report.assignments if a.to != a.origin]
    summary = report.summary
    assert summary.moves == summary.moved_children == len(moved) / 2
    assert [a.object for a in moved if a.action == Action.KEEP] == []
    assert [shard for shard in report.shards if shard.objects != shard.children] == []


async def test_shards_are_listed_with_what_they_say_of_themselves() -> None:
    fake = await ReadCluster().filled(PlacementSpec(per_shard_capacity=5))
    labels = {ZONE_LABEL: "z", REGION_LABEL: "r"}
    says = {
        POOL_ANNOTATION: "p",
        WEIGHT_ANNOTATION: "2",
        CAPACITY_ANNOTATION: "objects=9,memory=1Ki",
        CORDONED_ANNOTATION: "yes",
    }
    body = as_body(lease(C, labels=labels))
    assert isinstance(body, dict)
    await fake.leases.create(
        "default", {**body, "metadata": {**body["metadata"], "annotations": says}}
    )

    *_, row = (await shards(fake.cluster, name=DEMO)).shards

    assert (row.region, row.zone, row.pool, row.weight) == ("r", "z", "p", 2.0)
    assert row.capacity == {"memory": "1024", "objects": "5"}
    assert row.cordoned is False
    assert row.mistakes == (
        f"the annotation {CORDONED_ANNOTATION} is ignored: 'yes' is neither true nor false",
    )


async def test_a_plan_of_a_cluster_shows_what_is_supposed() -> None:
    fake = await ReadCluster().filled()
    for number in range(4):
        await fake.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=A))
    what_if = WhatIf(strategy=StrategyName.BOUNDED_LOAD, add=1, remove=(B,))

    report = await plan(fake.cluster, name=DEMO, what_if=what_if)

    assert [(shard.name, shard.objects) for shard in report.shards] == [
        ("demo-new-1", 2),
        (A, 2),
        (B, 0),
    ]


async def test_a_pause_is_reported_and_a_plan_can_ignore_it() -> None:
    fake = await ReadCluster().filled(COUNTED, movement=MovementSpec(paused=True))
    says: Json = {"metadata": {"annotations": {EVACUATE_ANNOTATION: "true"}}}
    await fake.leases.patch(ObjectRef("default", A), says)
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner=A))

    paused = await plan(fake.cluster, name=DEMO)
    resumed = await plan(fake.cluster, name=DEMO, what_if=WhatIf(resume=True))

    (ring,) = (await rings(fake.cluster)).rings
    assert (ring.paused, (await shards(fake.cluster, name=DEMO)).paused) == (True, True)
    assert (paused.paused, paused.summary.moves) == (True, 0)
    assert (resumed.paused, resumed.summary.moves) == (False, 1)


@pytest.mark.parametrize(("pin", "mistakes"), [(B, 0), ("no-such-shard", 1)])
async def test_a_pin_to_a_shard_that_is_not_there_is_reported(pin: str, mistakes: int) -> None:
    fake = await ReadCluster().filled()
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner=A, labels={pin_label(DEMO): pin}))

    told = await explain(fake.cluster, ring=DEMO, resource="widgets.example.com", name="default/w")

    sentence = f"the label {pin_label(DEMO)} has no effect: demo has no shard {pin}"
    assert told.mistakes == (sentence,) * mistakes


async def test_a_ring_that_is_not_there_is_reported_with_those_that_are() -> None:
    fake = await ReadCluster().filled()

    with pytest.raises(
        ConfigError, match=r"ControllerRing other not found; existing rings: demo$"
    ):
        await plan(fake.cluster, name="other")


async def test_a_ring_that_cannot_be_decoded_says_why() -> None:
    fake = await ReadCluster().filled()
    await fake.rings.patch(ObjectRef("", DEMO), {"spec": {"resources": 7}})

    (row,) = (await rings(fake.cluster)).rings

    assert (row.name, row.objects) == (DEMO, None)
    assert "cannot be decoded by this version: Expected `array`" in (row.problem or "")
    for ask in (shards(fake.cluster, name=DEMO), plan(fake.cluster, name=DEMO)):
        with pytest.raises(ConfigError, match="ControllerRing demo cannot be decoded by this"):
            await ask


async def test_a_cluster_without_the_crd_is_reported() -> None:
    fake = ReadCluster()
    fake.rings.fail(NotFound("404"))

    with pytest.raises(ConfigError, match="install the CRD"):
        await rings(fake.cluster)


async def test_what_is_forbidden_is_reported() -> None:
    fake = await ReadCluster().filled()
    fake.leases.fail(Forbidden("no"))

    with pytest.raises(Forbidden):
        await shards(fake.cluster, name=DEMO)


async def test_an_object_is_explained() -> None:
    fake = await ReadCluster().filled()
    name = named(WIDGETS, B, snapshot())
    await fake.add(WIDGETS, obj(WIDGETS, name, owner=A))

    told = await explain(
        fake.cluster, ring=DEMO, resource="widgets.example.com", name=f"default/{name}"
    )

    assert (told.owner, told.owner_state, told.wanted) == (A, "late", B)
    assert (told.action, told.to, told.draining) == (Action.DRAIN, B, False)
    assert told.key == told.object == f"example.com/Widget/default/{name}"
    assert told.controller is None
    assert told.why.startswith("it belongs on shard-b; shard-a might be working on it")


async def test_a_controlled_object_is_explained_by_the_object_that_controls_it() -> None:
    fake = await ReadCluster().filled()
    name = named(SECRETS, B, snapshot())
    await fake.add(SECRETS, obj(SECRETS, name, owner=A))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "child", owner=B, controlled_by=name))

    told = await explain(fake.cluster, ring=DEMO, resource="configmaps", name="default/child")

    assert told.controller == told.key == f"/Secret/default/{name}"
    assert (told.wanted, told.action, told.to) == (A, Action.RELABEL, A)


async def test_an_object_is_explained_with_what_it_controls_on_other_shards() -> None:
    fake = await ReadCluster().filled()
    await fake.add(SECRETS, obj(SECRETS, "s", owner=A))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "with-it", owner=A, controlled_by="s"))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "apart", owner=B, controlled_by="s"))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "behind", controlled_by="s"))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "of-another", owner=B, controlled_by="t"))

    told = await explain(fake.cluster, ring=DEMO, resource="secrets", name="default/s")

    assert told.apart == (
        ApartView(object="/ConfigMap/default/apart", owner=B),
        ApartView(object="/ConfigMap/default/behind", owner=None),
    )


@pytest.mark.parametrize(("controller", "action"), [("not there", "assign"), (None, "none")])
async def test_a_controlled_object_without_owner_to_ask_is_explained_too(
    controller: str | None, action: str
) -> None:
    fake = await ReadCluster().filled()
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "child", controlled_by=controller))

    told = await explain(fake.cluster, ring=DEMO, resource="configmaps", name="default/child")

    assert told.action == action


async def test_an_object_is_explained_with_a_word_about_every_shard() -> None:
    fake = await ReadCluster().filled(PlacementSpec(group_by=GroupBy(labels=("app",))))
    await fake.leases.create("default", as_body(lease(C, holder="")))
    await fake.leases.create("default", as_body(lease("invalid", renewed=None)))
    await fake.leases.create("default", as_body(lease("odd", holder="another-client")))
    labels = {pin_label(DEMO): A, WANTED_ZONE_LABEL: "z", "app": "web", POOL_LABEL: ""}
    await fake.add(WIDGETS, obj(WIDGETS, "w", labels=labels))

    told = await explain(fake.cluster, ring=DEMO, resource="widgets.example.com", name="default/w")

    placement = told.placement
    assert placement is not None
    assert (placement.pin, placement.zone, placement.region) == (A, "z", None)
    assert placement.group == ("label app=web",)
    assert placement.chosen is None
    assert placement.reason is not None
    assert [(s.name, s.state, s.rejected, s.remark) for s in placement.shards] == [
        ("invalid", "leaving", "its Lease is invalid, so it gets no new objects", None),
        ("odd", "missing", "it does not hold its Lease, or another shard has the same name", None),
        (A, "late", "the object asks for the zone z", None),
        (B, "late", "the object is pinned to shard-a", None),
        (C, "left", "it has released or lost its Lease", None),
    ]
    assert told.mistakes == (
        f"the label {POOL_LABEL} is ignored: it is empty or not a valid label value",
    )


async def test_a_strategy_that_follows_is_explained_by_its_remarks() -> None:
    fake = await ReadCluster().filled()
    name = named(WIDGETS, B, snapshot())
    await fake.add(WIDGETS, obj(WIDGETS, name))

    told = await explain(
        fake.cluster, ring=DEMO, resource="widgets.example.com", name=f"default/{name}"
    )

    assert told.placement is not None
    assert (told.strategy, told.placement.chosen) == ("ConsistentHash", B)
    assert {s.name: s.remark for s in told.placement.shards} == {
        A: "place 2 clockwise from the key",
        B: "place 1 clockwise from the key",
    }


async def test_a_strategy_that_sticks_is_explained_by_all_objects_of_the_ring() -> None:
    fake = await ReadCluster().filled(PlacementSpec(strategy=StrategyName.BOUNDED_LOAD))
    for number in range(3):
        await fake.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=A))
    await fake.add(SECRETS, obj(SECRETS, "s"))

    told = await explain(fake.cluster, ring=DEMO, resource="secrets", name="default/s")

    assert (told.action, told.to) == (Action.ASSIGN, B)
    assert told.placement is not None
    assert [s.rejected for s in told.placement.shards] == ["it is full: 3 of 2 objects", None]


async def test_a_controlled_object_follows_as_all_objects_of_the_ring_decide() -> None:
    fake = await ReadCluster().filled(PlacementSpec(strategy=StrategyName.BOUNDED_LOAD))
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner=A))
    await fake.add(SECRETS, obj(SECRETS, "s"))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "c", controlled_by="s"))

    told = await explain(fake.cluster, ring=DEMO, resource="configmaps", name="default/c")

    assert (told.to, told.placement) == (B, None)


COUNTED = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
EVEN = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD)


async def test_a_plan_of_a_cluster_shows_what_moves_for_balance() -> None:
    fake = await ReadCluster().filled(COUNTED, rebalance=EVEN)
    for number in range(4):
        await fake.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=A))

    report = await plan(fake.cluster, name=DEMO)

    assert report.rebalance is not None
    assert report.rebalance.why.startswith("2 moves: ")
    assert [(a.action, a.to) for a in report.assignments] == [
        *[(Action.DRAIN, B)] * 2,
        *[(Action.KEEP, A)] * 2,
    ]


async def test_an_object_is_explained_with_what_balance_makes_of_it() -> None:
    fake = await ReadCluster().filled(COUNTED, rebalance=EVEN)
    for number in range(3):
        await fake.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=A))

    told = [
        await explain(
            fake.cluster, ring=DEMO, resource="widgets.example.com", name=f"default/w{number}"
        )
        for number in (0, 1)
    ]

    noun = "the number of objects by weight"
    assert [(it.action, it.wanted, it.to) for it in told] == [
        (Action.DRAIN, B, B),
        (Action.KEEP, A, A),
    ]
    assert told[0].rebalance == f"would move to {B}: {noun} of {A} goes from 3 to 2"
    assert told[0].why.startswith(f"{noun} of {A} falls from 3 to 2 without it, so it goes to {B}")
    assert str(told[1].rebalance).startswith("stays: no other shard is a better place")


async def test_what_an_object_controls_weighs_with_it_and_has_no_verdict() -> None:
    by_cpu = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD, resources=("cpu",))
    fake = await ReadCluster().filled(COUNTED, rebalance=by_cpu)
    for shard in (A, B):
        says: Json = {"metadata": {"annotations": {CAPACITY_ANNOTATION: "cpu=10"}}}
        await fake.leases.patch(ObjectRef("default", shard), says)
    load = {LOAD_ANNOTATION: "cpu=4"}
    await fake.add(SECRETS, obj(SECRETS, "s", owner=A))
    await fake.add(SECRETS, obj(SECRETS, "t", owner=A))
    for name in "st":
        child = obj(CONFIGMAPS, name, owner=A, controlled_by=name, annotations=load)
        await fake.add(CONFIGMAPS, child)

    leader = await explain(fake.cluster, ring=DEMO, resource="secrets", name="default/s")
    follower = await explain(fake.cluster, ring=DEMO, resource="configmaps", name="default/s")

    assert leader.rebalance == f"would move to {B}: the rate of {A} goes from 0.8 to 0.4"
    assert (follower.rebalance, follower.action) == (None, Action.KEEP)


async def test_the_reason_why_an_object_stays_on_a_wrong_shard_is_reported() -> None:
    fake = await ReadCluster().filled(movement=MovementSpec(paused=True))
    for name, revision in ((A, "one"), (B, "two")):
        says: Json = {
            "metadata": {
                "labels": {REVISION_LABEL: revision},
                "annotations": {EVACUATE_ANNOTATION: str(name == A).lower()},
            }
        }
        await fake.leases.patch(ObjectRef("default", name), says)
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner=A))

    told = await explain(fake.cluster, ring=DEMO, resource="widgets.example.com", name="default/w")

    assert (told.action, told.to, told.why) == (Action.KEEP, A, "movement is paused")
    assert told.rebalance is None
    assert told.movement == 'movement is paused; run "sharder resume" to continue'
    assert told.rollout == (
        "shards of several revisions are available, two is the newest; "
        "until the rollout ends, no object is drained for the strategy or for balance"
    )
    assert told.evacuation == f"{A} is being evacuated: all its objects are drained"


@pytest.mark.parametrize("owner", [None, B, "no-such-shard"])
async def test_reasons_that_do_not_apply_are_not_reported(owner: str | None) -> None:
    fake = await ReadCluster().filled()
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner=owner))

    told = await explain(fake.cluster, ring=DEMO, resource="widgets.example.com", name="default/w")

    assert (told.rebalance, told.movement, told.rollout, told.evacuation) == (None,) * 4


async def test_an_object_out_of_scope_is_not_weighed() -> None:
    fake = await ReadCluster().filled(COUNTED, rebalance=EVEN)
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner=A, namespace="elsewhere"))

    told = await explain(
        fake.cluster, ring=DEMO, resource="widgets.example.com", name="elsewhere/w"
    )

    assert told.rebalance is None


async def test_an_object_out_of_scope_is_reported_as_such() -> None:
    fake = await ReadCluster().filled()
    await fake.add(WIDGETS, obj(WIDGETS, "w", owner="x", namespace="elsewhere"))

    told = await explain(
        fake.cluster, ring=DEMO, resource="widgets.example.com", name="elsewhere/w"
    )

    assert (told.action, told.wanted, told.to, told.owner_state) == (Action.NONE, None, "x", None)
    assert (
        told.why == "the ring does not select its namespace elsewhere, so it gets no other shard"
    )
    assert told.placement is None


@pytest.mark.parametrize(
    ("resource", "name", "problem"),
    [
        (
            "pods",
            "default/x",
            "ring demo has no resource pods; its resources: configmaps, secrets, widgets",
        ),
        (
            "secrets",
            "x",
            "x is not a name of secrets; use NAME with --namespace, or NAMESPACE/NAME",
        ),
        (
            "secrets",
            "default/",
            "default/ is not a name of secrets; use NAME with --namespace, or NAMESPACE/NAME",
        ),
        ("secrets", "default/x", "secrets default/x not found; check the name"),
    ],
)
async def test_an_object_that_is_not_there_is_reported(
    resource: str, name: str, problem: str
) -> None:
    fake = await ReadCluster().filled()

    with pytest.raises(ConfigError, match=problem):
        await explain(fake.cluster, ring=DEMO, resource=resource, name=name)


async def test_a_cluster_scoped_object_has_no_namespace_in_its_name() -> None:
    cluster_wide = Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=False)
    fake = await ReadCluster(cluster_wide, *RESOURCES[1:]).filled()
    await fake.add(WIDGETS, obj(WIDGETS, "w", namespace=""))

    told = await explain(fake.cluster, ring=DEMO, resource="widgets.example.com", name="w")

    assert told.object == "example.com/Widget//w"
    with pytest.raises(ConfigError, match="use NAME, they are cluster-scoped"):
        await explain(fake.cluster, ring=DEMO, resource="widgets.example.com", name="a/w")
