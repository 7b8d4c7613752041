"""What a shard makes sure of before it takes its Lease."""

import logging
from collections.abc import Callable, Sequence
from unittest.mock import AsyncMock

import pytest

from sharder.core.api.cluster import Right
from sharder.core.api.ring import ControlledResource, RingResource
from sharder.core.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    InvalidObject,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.core.names import ObjectRef
from sharder.sdk import Shard
from sharder.sdk.testing.fake_clock import FixedRng
from sharder.shard.identity import Handled
from sharder.shard.rights import LEASES, needed_rights, rights_behind_proxy
from tests.unit.sdk.scene import (
    CONFIGMAPS,
    LEASE,
    RING,
    SECRETS,
    SETTINGS,
    Controller,
    Scene,
    at_work,
    ring_of,
)

WIDGETS = RingResource(group="example.com", resource="widgets")
GADGETS = RingResource(group="example.com", resource="gadgets")
BOTH = RingResource(
    resource="secrets", controlled_resources=(ControlledResource(resource="configmaps"),)
)
PATCH_SECRETS = Right(verb="patch", resource=SECRETS.id)


# Construction


@pytest.mark.parametrize("order", [1, -1], ids=["child first", "main first"])
def test_a_resource_is_either_reconciled_or_that_of_children(order: int) -> None:
    shard = Shard(ring=RING)
    first, second = [("secrets", ["configmaps"]), ("configmaps", [])][::order]
    shard.reconciler(first[0], Controller(), owns=first[1])

    with pytest.raises(
        ConfigError, match="configmaps has a reconciler and is in `owns` of secret"
    ):
        shard.reconciler(second[0], Controller(), owns=second[1])


async def test_a_shard_without_a_reconciler_is_refused() -> None:
    scene = Scene()

    with pytest.raises(ConfigError, match="no reconciler"):
        await Shard(ring=RING, settings=SETTINGS).serve_on(
            scene.cluster, clock=scene.clock, rng=FixedRng()
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
        assert not await scene.has_lease()
        scene.cluster.denied = set()
        await scene.clock.advance(40)

        assert controller.started == ["one"]
    assert caplog.messages == [
        "cannot start work: rights are missing, add "
        '{apiGroups: [""], resources: [secrets], verbs: [patch]} to the '
        "shard's ClusterRole"
    ]


@pytest.mark.parametrize("fault", [Forbidden("no reviews"), Unavailable("timed out")])
async def test_a_shard_whose_rights_cannot_be_checked_goes_on_with_a_warning(
    fault: ApiError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    monkeypatch.setattr(scene.cluster, "may", AsyncMock(side_effect=fault))

    async with at_work(scene, Controller()):
        assert await scene.has_lease()
    assert caplog.messages == [f"rights not checked: {fault}"]


@pytest.mark.parametrize(
    ("needed", "of_children"), [(needed_rights, ["create", "patch"]), (rights_behind_proxy, [])]
)
def test_the_rights_that_are_needed_are_those_of_the_documentation(
    needed: Callable[[Handled, ObjectRef], Sequence[Right]], of_children: list[str]
) -> None:
    rights = needed({SECRETS.id: (CONFIGMAPS.id,)}, LEASE)
    verbs = {
        resource: [right.verb for right in rights if right.resource == resource]
        for resource in (SECRETS.id, CONFIGMAPS.id, LEASES)
    }

    assert verbs == {
        SECRETS.id: ["get", "list", "watch", "patch"],
        CONFIGMAPS.id: ["get", "list", "watch", *of_children],
        LEASES: ["get", "create", "patch"],
    }
    assert {(r.namespace, r.name) for r in rights if r.resource == LEASES} == {
        (LEASE.namespace, LEASE.name),
        (LEASE.namespace, ""),
    }


# The ring


async def test_a_shard_takes_no_lease_while_its_ring_assigns_what_it_does_not_reconcile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    scene.cluster.rings[RING] = ring_of(WIDGETS, BOTH, GADGETS)

    async with at_work(scene, controller):
        await scene.clock.advance(600)
        assert not await scene.has_lease()
        scene.cluster.rings[RING] = ring_of(BOTH)
        await scene.clock.advance(40)

        assert controller.started == ["one"]
    assert caplog.messages == [
        "cannot start work: ControllerRing demo also assigns gadgets.example.com, "
        "widgets.example.com, which this shard would neither reconcile nor release: handle "
        "them too, or list them in another ring"
    ]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([], "spec.resources lacks secrets, so the shard gets none"),
        (
            [RingResource(resource="secrets")],
            "the controlledResources of secrets lack configmaps, so children do not move with "
            "their parents",
        ),
    ],
    ids=["no main resource", "no children"],
)
async def test_a_shard_warns_once_of_what_it_handles_and_its_ring_does_not(
    resources: Sequence[RingResource], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    scene.cluster.rings[RING] = ring_of(*resources)
    scene.cluster.denied = {PATCH_SECRETS}

    async with at_work(scene, Controller()):
        await scene.clock.advance(60)
        scene.cluster.denied = set()
        await scene.clock.advance(60)
        assert await scene.has_lease()
    assert caplog.messages.count(f"ControllerRing demo does not fit this shard: {message}") == 1


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
    error: SharderError,
    level: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    monkeypatch.setattr(scene.cluster, "ring", AsyncMock(side_effect=error))

    async with at_work(scene, Controller()):
        assert await scene.has_lease()
    assert [r.levelname for r in caplog.records if text in r.getMessage()] == [level]


# Another shard of the same process


async def test_a_second_shard_of_a_process_on_one_lease_is_refused_at_once() -> None:
    scene = Scene()

    async with at_work(scene, Controller()):
        second = Shard(ring="other", settings=SETTINGS)
        second.reconciler("secrets", Controller())
        with pytest.raises(ConfigError, match="another shard of this process uses Lease"):
            await second.serve_on(scene.cluster, clock=scene.clock, rng=FixedRng())
