"""What a shard does that has more than a function: predicates, several resources, rights."""

from collections.abc import Mapping

import pytest

from sharder.core.api.cluster import Right
from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk import OwnMeta, Request, Shard, generation_changed
from sharder.sdk.reconciler import Predicate, Reconcile
from sharder.sdk.testing.fake_clock import settle
from tests.unit.sdk.scene import DRAIN, ME, OWNER, RING, Controller, Scene, at_work

NAME = "example.com/cleanup"
WIDGET = ObjectRef("default", "one")


async def nothing(request: Request) -> None:
    """Clean up nothing."""


async def create_widget(scene: Scene, **metadata: Json) -> None:
    body: Json = {"metadata": {"name": "one", "labels": {OWNER: ME}, **metadata}}
    await scene.cluster.widgets.create("default", body)
    await settle()


async def change_widget(scene: Scene, body: Mapping[str, Json]) -> None:
    await scene.cluster.widgets.patch(WIDGET, body)
    await settle()


# Predicates


def never(_old: OwnMeta, _new: OwnMeta) -> bool:
    return False


def broken(_old: OwnMeta, _new: OwnMeta) -> bool:
    raise KeyError("missing")


@pytest.mark.parametrize(("when", "runs"), [(generation_changed, 2), (never, 1), (broken, 3)])
async def test_a_predicate_saves_reconciles_unless_it_fails_and_no_drain_waits_for_it(
    when: Predicate, runs: int, caplog: pytest.LogCaptureFixture
) -> None:
    scene, controller = Scene(), Controller()

    def add(shard: Shard) -> None:
        shard.reconciler("widgets.example.com", controller, when=when)

    async with at_work(scene, Controller(), more=add):
        await create_widget(scene)
        await change_widget(scene, {"metadata": {"annotations": {"note": "new"}}})
        await change_widget(scene, {"spec": {"size": 2}})
        assert len(controller.started) == runs

        await change_widget(scene, {"metadata": {"labels": {DRAIN: "1"}}})
        assert OWNER not in str((await scene.cluster.widgets.get(WIDGET))["metadata"])
    failed = "predicate failed, reconciling: default/one: KeyError('missing')"
    assert (failed in caplog.messages) is (when is broken)


async def test_an_object_that_is_made_again_is_new_whatever_the_predicate_says() -> None:
    scene, controller = Scene(), Controller()

    def add(shard: Shard) -> None:
        shard.reconciler("widgets.example.com", controller, when=never)

    async with at_work(scene, Controller(), more=add):
        await create_widget(scene)
        scene.hold_up_watches()
        await scene.cluster.delete("widgets.example.com", "one")
        await create_widget(scene)
        await scene.let_watches_flow()

        assert len(controller.started) == 2


# Several resources


async def test_each_resource_has_its_function_its_children_and_its_drains() -> None:
    scene, secrets, widgets = Scene(), Controller(is_held=True), Controller()

    async with at_work(scene, secrets, widgets=widgets):
        await scene.create_secret("one")
        await create_widget(scene)
        owner: Json = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "one",
            "uid": widgets.requests[0].metadata.uid,
            "controller": True,
        }
        labels: Json = {OWNER: ME}
        child: Json = {"name": "child", "labels": labels, "ownerReferences": [owner]}
        await scene.configmaps.create("default", {"metadata": child})
        await settle()
        assert (secrets.started, widgets.started) == (["one"], ["one", "one"])

        await change_widget(scene, {"metadata": {"labels": {DRAIN: "true"}}})
        assert secrets.running == {"one"}
        assert OWNER not in str((await scene.cluster.widgets.get(WIDGET))["metadata"])


async def test_an_evacuation_waits_for_the_objects_of_all_resources() -> None:
    scene = Scene()

    async with at_work(scene, Controller(), widgets=Controller(), drain_on_stop=60.0) as (
        shard,
        task,
    ):
        await create_widget(scene)
        shard.stop()
        await scene.clock.advance(10)
        assert not task.done()
        await change_widget(scene, {"metadata": {"labels": {DRAIN: "true"}}})
        await scene.clock.advance(1)

        assert task.done()


# Mistakes, and rights


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
    on_delete: Reconcile | None, finalizer: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Shard(ring=RING).reconciler(
            "secrets", Controller(), on_delete=on_delete, finalizer=finalizer
        )


def test_only_what_a_reconciler_handles_can_be_kept() -> None:
    with pytest.raises(ConfigError, match="`cache` has widgets"):
        Shard(ring=RING).reconciler(
            "secrets", Controller(), owns=["configmaps"], cache=["widgets"]
        )


@pytest.mark.parametrize(
    "right",
    [
        Right(verb="delete", resource=GroupResource("", "configmaps")),
        Right(verb="patch", resource=GroupResource("example.com", "widgets/status")),
        Right(verb="create", resource=GroupResource("", "configmaps"), namespace="mirror"),
    ],
    ids=lambda right: f"{right.verb} {right.resource}",
)
async def test_rights_to_what_else_is_done_are_needed_before_the_lease(right: Right) -> None:
    scene = Scene()
    scene.cluster.denied = {right}

    def add(shard: Shard) -> None:
        shard.needs("delete", "configmaps")
        shard.needs("create", "configmaps", namespace="mirror")
        shard.needs("patch", "widgets/status.example.com")

    async with at_work(scene, Controller(), more=add):
        assert not await scene.has_lease()
        scene.cluster.denied = set()
        await scene.clock.advance(30)
        assert await scene.has_lease()
