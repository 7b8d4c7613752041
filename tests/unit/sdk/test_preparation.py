"""What a shard makes sure of before it takes its Lease."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    InvalidObject,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk import Shard
from sharder.sdk.permissions import LEASES, Right, advice, needed_rights
from tests.unit.sdk.scene import (
    CONFIGMAPS,
    LEASE,
    RING,
    SECRETS,
    SETTINGS,
    Controller,
    FakeCluster,
    HalfWay,
    Scene,
    at_work,
)

WIDGETS = RingResource(group="example.com", resource="widgets")
GADGETS = RingResource(group="example.com", resource="gadgets")
BOTH = RingResource(
    resource="secrets", controlled_resources=(ControlledResource(resource="configmaps"),)
)
PATCH_SECRETS = Right(verb="patch", resource=SECRETS.id)


def ring_of(*resources: RingResource) -> ControllerRing:
    ring = FakeCluster().ring_found
    assert isinstance(ring, ControllerRing)
    return structs.replace(ring, spec=RingSpec(resources=resources))


async def has_lease(scene: Scene) -> bool:
    try:
        await scene.holder()
    except NotFound:
        return False
    return True


# Construction


def test_a_shard_whose_children_are_of_its_own_resource_is_refused() -> None:
    with pytest.raises(ConfigError, match="use another resource for children"):
        Shard(
            ring=RING,
            resource="configmaps",
            owns=["secrets", "configmaps"],
            reconcile=Controller(),
        )


# Rights


async def test_a_shard_without_a_right_takes_no_lease_until_it_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    scene.cluster.denied = {PATCH_SECRETS}

    async with at_work(scene, controller):
        await scene.clock.advance(600)
        assert not await has_lease(scene)
        scene.cluster.denied = set()
        await scene.clock.advance(40)

        assert controller.started == ["one"]
    assert caplog.messages == [
        "cannot start work: rights are missing, add "
        '{apiGroups: [""], resources: [secrets], verbs: [patch]} to its ClusterRole'
    ]


async def test_a_shard_that_waits_for_rights_stops_at_once() -> None:
    scene = Scene()
    scene.cluster.denied = {PATCH_SECRETS}

    async with at_work(scene, Controller()) as (shard, task):
        await scene.clock.advance(600)
        shard.stop()
        await scene.clock.advance(0)

        assert task.done()
        assert task.exception() is None
        assert not await has_lease(scene)


@pytest.mark.parametrize("fault", [Forbidden("no reviews"), Unavailable("timed out")])
async def test_a_shard_whose_rights_cannot_be_checked_goes_on_with_a_warning(
    fault: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    scene.cluster.review_faults.append(fault)

    async with at_work(scene, Controller()):
        assert await has_lease(scene)
    assert caplog.messages == [f"rights not checked: {fault}"]


async def test_rights_that_were_lost_with_the_lease_are_waited_for_before_it_is_taken_again() -> (
    None
):
    scene = Scene()

    async with at_work(scene, Controller(), reacquire=True):
        scene.cluster.denied = {PATCH_SECRETS}
        await scene.steal_lease()
        await scene.clock.advance(60)
        assert await scene.holder() == "shardlease-controller"
        scene.cluster.denied = set()
        await scene.clock.advance(60)

        assert await scene.holder() == SETTINGS.name


@pytest.mark.parametrize(
    "right",
    needed_rights(SECRETS.id, (CONFIGMAPS.id,), LEASE),
    ids=lambda r: f"{r.verb} {r.resource}",
)
async def test_each_right_counts(right: Right) -> None:
    scene = Scene()
    scene.cluster.denied = {right}

    async with at_work(scene, Controller()):
        assert not await has_lease(scene)


def test_the_rights_that_are_needed_are_those_of_the_documentation() -> None:
    rights = needed_rights(SECRETS.id, (CONFIGMAPS.id,), LEASE)
    verbs = {
        resource: [right.verb for right in rights if right.resource == resource]
        for resource in (SECRETS.id, CONFIGMAPS.id, LEASES)
    }

    assert verbs == {
        SECRETS.id: ["get", "list", "watch", "patch"],
        CONFIGMAPS.id: ["get", "list", "watch", "create", "patch"],
        LEASES: ["get", "create", "patch"],
    }
    assert {(r.namespace, r.name) for r in rights if r.resource == LEASES} == {
        (LEASE.namespace, LEASE.name),
        (LEASE.namespace, ""),
    }


def test_the_advice_has_one_rule_for_each_resource() -> None:
    deployments = GroupResource("apps", "deployments")
    rights = needed_rights(deployments, (CONFIGMAPS.id,), ObjectRef("shards", "a"))

    assert advice([rights[0], rights[3], rights[4], rights[-2]]) == (
        "rights are missing, add "
        '{apiGroups: ["apps"], resources: [deployments], verbs: [get, patch]} to its ClusterRole '
        'and {apiGroups: [""], resources: [configmaps], verbs: [get]} to its ClusterRole '
        'and {apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [create]} '
        "to its Role in namespace shards"
    )


# The ring


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            [WIDGETS, BOTH, GADGETS],
            "it also assigns gadgets.example.com, widgets.example.com, which this shard neither "
            "reconciles nor releases: move each resource with shards of its own to a ring of its "
            "own",
        ),
        (
            [WIDGETS],
            "it also assigns widgets.example.com, which this shard neither reconciles nor "
            "releases: move each resource with shards of its own to a ring of its own; it "
            "does not list secrets as a resource, so the shard gets no objects",
        ),
        (
            [RingResource(resource="secrets")],
            "it does not list configmaps in the controlledResources of secrets, so children do "
            "not move with their owners",
        ),
    ],
    ids=["others", "others alone", "no children"],
)
async def test_a_shard_says_at_its_start_what_its_ring_and_it_do_not_share(
    resources: Sequence[RingResource], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    scene.cluster.ring_found = ring_of(*resources)

    async with at_work(scene, Controller()):
        assert await has_lease(scene)
    assert caplog.messages == [f"ControllerRing demo does not fit this shard: {message}"]


async def test_a_shard_whose_ring_fits_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with at_work(Scene(), Controller()):
        pass

    assert caplog.messages == []


@pytest.mark.parametrize(
    ("error", "level", "text"),
    [
        (NotFound("no"), "WARNING", "there is no ControllerRing demo"),
        (Forbidden("no"), "INFO", "resources: [controllerrings], verbs: [get]"),
        (
            Unavailable("away"),
            "WARNING",
            "cannot compare ControllerRing demo with this shard: away",
        ),
        (InvalidObject("odd"), "WARNING", "cannot compare ControllerRing demo with this shard"),
    ],
)
async def test_a_ring_that_cannot_be_read_is_named_and_keeps_no_shard_from_working(
    error: SharderError, level: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    scene.cluster.ring_found = error

    async with at_work(scene, Controller()):
        assert await has_lease(scene)
    assert [r.levelname for r in caplog.records if text in r.getMessage()] == [level]


# Another shard of the same process


async def test_a_second_shard_of_a_process_on_one_lease_is_refused_at_once() -> None:
    scene = Scene()

    async with at_work(scene, Controller()):
        second = Shard(ring="other", resource="secrets", reconcile=Controller(), settings=SETTINGS)
        with pytest.raises(ConfigError, match="another Shard of this process uses Lease"):
            await second.serve_on(scene.cluster, clock=scene.clock, rng=HalfWay())


async def test_shards_of_one_process_with_names_of_their_own_work_side_by_side() -> None:
    scene = Scene()
    settings = replace(SETTINGS, name="shard-b")

    async with at_work(scene, Controller()):
        second = Shard(ring=RING, resource="secrets", reconcile=Controller(), settings=settings)
        serving = asyncio.create_task(
            second.serve_on(scene.cluster, clock=scene.clock, rng=HalfWay())
        )
        await scene.clock.advance(1)

        lease = await scene.cluster.lease_store.get(LEASE._replace(name="shard-b"))
        assert lease.spec.holder_identity == "shard-b"
        serving.cancel()
        await asyncio.wait({serving})


async def test_a_lease_is_free_for_the_next_shard_of_the_process_when_one_has_ended() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    async with at_work(scene, Controller()):
        pass

    async with at_work(scene, controller):
        assert controller.started == ["one"]
