"""A shard with several main resources has one Lease and a function for each."""

from sharder.core.names import ObjectRef
from sharder.sdk.testing.fake_clock import settle
from tests.unit.sdk.scene import DRAIN, ME, OWNER, Controller, Scene, at_work


async def create_widget(scene: Scene, name: str) -> ObjectRef:
    await scene.cluster.widgets.create(
        "default", {"metadata": {"name": name, "labels": {OWNER: ME}}}
    )
    await settle()
    return ObjectRef("default", name)


async def test_each_function_gets_the_objects_of_its_resource() -> None:
    scene, secrets, widgets = Scene(), Controller(), Controller()

    async with at_work(scene, secrets, widgets=widgets):
        await scene.create_secret("of-same-name")
        await scene.create_secret("secret")
        await create_widget(scene, "of-same-name")

        assert secrets.started == ["of-same-name", "secret"]
        assert widgets.started == ["of-same-name"]


async def test_a_drain_of_one_resource_does_not_wait_for_work_on_the_other() -> None:
    scene, secrets = Scene(), Controller(is_held=True)

    async with at_work(scene, secrets, widgets=Controller()):
        await scene.create_secret("same")
        widget = await create_widget(scene, "same")
        await scene.cluster.widgets.patch(widget, {"metadata": {"labels": {DRAIN: "true"}}})
        await settle()

        labels = (await scene.cluster.widgets.get(widget))["metadata"]
        assert secrets.running == {"same"}
    assert OWNER not in str(labels)


async def test_a_child_is_followed_by_the_function_of_its_parents_resource() -> None:
    scene, secrets, widgets = Scene(), Controller(), Controller()

    async with at_work(scene, secrets, widgets=widgets):
        await scene.create_secret("same")
        await create_widget(scene, "same")
        await scene.configmaps.create(
            "default",
            {
                "metadata": {
                    "name": "child",
                    "labels": {OWNER: ME},
                    "ownerReferences": [
                        {
                            "apiVersion": "example.com/v1",
                            "kind": "Widget",
                            "name": "same",
                            "uid": widgets.requests[0].metadata.uid,
                            "controller": True,
                        }
                    ],
                }
            },
        )
        await settle()

        assert secrets.started == ["same"]
        assert widgets.started == ["same", "same"]


async def test_an_evacuation_waits_for_the_objects_of_all_resources() -> None:
    scene = Scene()

    async with at_work(scene, Controller(), widgets=Controller(), drain_on_stop=60.0) as (
        shard,
        task,
    ):
        widget = await create_widget(scene, "one")
        shard.stop()
        await scene.clock.advance(10)
        assert not task.done()
        await scene.cluster.widgets.patch(widget, {"metadata": {"labels": {DRAIN: "true"}}})
        await scene.clock.advance(1)

        assert task.done()
