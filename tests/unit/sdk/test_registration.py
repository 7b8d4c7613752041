"""What a shard does that has more than a function: on_delete, predicates, tasks, rights."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk import Backoff, Leadership, Request, Shard, generation_changed
from sharder.sdk.reconciler import OnDelete
from sharder.sdk.testing import FixedRng
from sharder.sdk.testing.fake_clock import FakeClock, settle
from sharder.shard.rights import LEASES, Right
from tests.unit.sdk.scene import (
    LEASE,
    ME,
    OWNER,
    RING,
    SETTINGS,
    Controller,
    Scene,
    at_work,
)

NAME = "example.com/cleanup"
WIDGET = ObjectRef("default", "one")
LEADER = ObjectRef("default", f"{RING}-leader")


async def nothing(request: Request) -> None:
    """Clean up nothing."""


async def create_widget(scene: Scene, **metadata: Json) -> None:
    body: Json = {"metadata": {"name": "one", "labels": {OWNER: ME}, **metadata}}
    await scene.cluster.widgets.create("default", body)
    await settle()


async def change_widget(scene: Scene, metadata: Mapping[str, Json]) -> None:
    await scene.cluster.widgets.patch(WIDGET, {"metadata": metadata})
    await settle()


async def has_lease(scene: Scene, ref: ObjectRef) -> bool:
    leases = await scene.cluster.lease_store.list()
    return ref in {lease.metadata.ref for lease in leases.items}


async def test_a_deleted_object_is_cleaned_up_after_and_gone() -> None:
    scene, controller, cleaned = Scene(), Controller(), list[str]()

    async def clean_up(request: Request) -> None:
        cleaned.append(request.ref.name)

    def add(shard: Shard) -> None:
        shard.reconciler("widgets.example.com", controller, on_delete=clean_up, finalizer=NAME)

    async with at_work(scene, Controller(), more=add):
        await create_widget(scene)
        meta = controller.requests[-1].metadata
        current = (await scene.cluster.widgets.list()).items[0]["metadata"]
        assert isinstance(current, Mapping)
        assert current["finalizers"] == [NAME]
        await scene.cluster.widgets.delete(
            WIDGET, uid=meta.uid, resource_version=str(current["resourceVersion"])
        )
        await settle()

    assert cleaned == ["one"]
    assert not (await scene.cluster.widgets.list()).items


async def test_a_predicate_saves_reconciles_and_no_drain_waits_for_it() -> None:
    scene, controller = Scene(), Controller()

    def add(shard: Shard) -> None:
        shard.reconciler("widgets.example.com", controller, when=generation_changed)

    async with at_work(scene, Controller(), more=add):
        await create_widget(scene)
        await change_widget(scene, {"annotations": {"note": "new"}})
        assert len(controller.started) == 1

        await scene.cluster.widgets.patch(WIDGET, {"spec": {"size": 2}})
        await settle()
        assert len(controller.started) == 2

        await change_widget(scene, {"labels": {f"drain.alpha.sharding.timebertt.dev/{RING}": "1"}})
        metadata = (await scene.cluster.widgets.get(WIDGET))["metadata"]
        assert OWNER not in str(metadata)


async def test_failures_of_a_resource_back_off_as_it_says() -> None:
    scene, controller = Scene(), Controller(errors=[ValueError("no")] * 2)
    shortest = Backoff(base=100, cap=100)

    def add(shard: Shard) -> None:
        shard.reconciler("widgets.example.com", controller, backoff=shortest)

    async with at_work(scene, Controller(), more=add):
        await create_widget(scene)
        await scene.clock.advance(74)
        assert len(controller.started) == 1
        await scene.clock.advance(2)
        assert len(controller.started) == 2


@pytest.mark.parametrize(
    ("on_delete", "finalizer", "problem"),
    [
        (nothing, "", "need each other"),
        (None, NAME, "need each other"),
        (nothing, "cleanup", "a domain and a name"),
        (nothing, "example.com/", "a domain and a name"),
    ],
)
def test_on_delete_needs_a_finalizer_with_a_domain(
    on_delete: OnDelete | None, finalizer: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Shard(ring=RING).reconciler(
            "secrets", Controller(), on_delete=on_delete, finalizer=finalizer
        )


async def test_a_task_of_the_leader_runs_while_the_shard_works() -> None:
    scene, events = Scene(), list[str]()

    async def task(leadership: Leadership) -> None:
        leadership.check()
        events.append(f"{leadership.shard} leads")
        try:
            await scene.clock.sleep(1000)
        finally:
            events.append("ended")

    async with at_work(scene, Controller(), more=lambda shard: shard.leader_only(task)) as at:
        assert events == [f"{ME} leads"]
        shard, serving = at
        shard.stop()
        await settle()
        assert serving.done()

    assert events == [f"{ME} leads", "ended"]
    for lease in (LEASE, LEADER):
        held = await scene.cluster.lease_store.get(lease)
        assert held.spec.holder_identity == ""


async def test_a_shard_does_not_bear_the_name_of_the_leaders_lease() -> None:
    shard = Shard(ring=RING, settings=replace(SETTINGS, name=LEADER.name))
    shard.reconciler("secrets", Controller())

    async def task(leadership: Leadership) -> None:
        """Do nothing."""

    shard.leader_only(task)

    with pytest.raises(ConfigError, match="leader's Lease"):
        await shard.serve_on(Scene().cluster, clock=FakeClock(), rng=FixedRng())


@pytest.mark.parametrize(
    "right",
    [
        Right(verb="delete", resource=GroupResource("", "configmaps")),
        Right(verb="patch", resource=GroupResource("example.com", "widgets/status")),
        Right(verb="create", resource=GroupResource("", "configmaps"), namespace="mirror"),
        Right(verb="patch", resource=LEASES, namespace="default", name=LEADER.name),
    ],
    ids=lambda right: f"{right.verb} {right.resource}",
)
async def test_rights_to_what_else_is_done_are_needed_before_the_lease(right: Right) -> None:
    scene = Scene()
    scene.cluster.denied = {right}

    async def task(leadership: Leadership) -> None:
        """Do nothing."""

    def add(shard: Shard) -> None:
        shard.leader_only(task)
        shard.needs("delete", "configmaps")
        shard.needs("create", "configmaps", namespace="mirror")
        shard.needs("patch", "widgets/status.example.com")

    async with at_work(scene, Controller(), more=add):
        assert not await has_lease(scene, LEASE)
        scene.cluster.denied = set()
        await scene.clock.advance(30)
        assert await has_lease(scene, LEASE)
