"""Who owns an object is not the user's to say, and the user never hears of it.

Every write here succeeds: `User` forgives no error.
"""

import pytest

from sharder.core.api.meta import Json, Resource
from sharder.kube.typed_stores import SECRETS
from tests.support.scene import TENANTS
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, CONTENT, PLANETS, PODS, WIDGETS, controlled_by


async def test_a_forged_owner_of_a_new_object_is_ignored(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        made = [
            await scene.author.create(
                CONFIGMAPS, name, namespace=scene.namespace,
                labels={scene.owner: scene.shard("a"), scene.drain: "true"},
            )
            for name in scene.names_on_each(CONFIGMAPS, 3)
        ]  # fmt: skip

        assert [scene.owner_of(obj) for obj in made] == [scene.wanted(obj) for obj in made]
        assert len({scene.owner_of(obj) for obj in made}) > 1
        assert not any(scene.is_draining(obj) for obj in made)


async def test_a_shard_releases_what_it_was_asked_for(service: Service) -> None:
    async with (
        service.scene(CONFIGMAPS) as scene,
        service.as_pod(scene.shard("a"), TENANTS) as shard,
    ):
        obj = await scene.drained(CONFIGMAPS, frm="a")

        after = await shard.label(CONFIGMAPS, obj, {scene.owner: None, scene.drain: None})

        assert after.metadata.labels == {scene.owner: scene.shard("d")}


async def test_a_child_of_a_cluster_scoped_object_is_where_its_owner_is(service: Service) -> None:
    async with service.scene(PLANETS, controlled=[CONFIGMAPS]) as scene:
        parents = [await scene.create(PLANETS, name) for name in scene.names_on_each(PLANETS, 3)]

        children = [
            await scene.author.create(
                CONFIGMAPS, f"child-{index}", namespace=scene.namespace,
                ownerReferences=controlled_by(parent),
            )
            for index, parent in enumerate(parents)
        ]  # fmt: skip

        owners = [scene.owner_of(parent) for parent in parents]
        assert [scene.owner_of(child) for child in children] == owners
        assert len(set(owners)) > 1


async def test_a_forged_owner_of_an_object_without_controller_is_removed(service: Service) -> None:
    async with service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene:
        forged = {scene.owner: scene.shard("a")}

        created = await scene.author.create(
            CONFIGMAPS, "created", namespace=scene.namespace, labels={**forged}
        )
        plain = await scene.author.create(CONFIGMAPS, "plain", namespace=scene.namespace)
        labelled = await scene.author.label(CONFIGMAPS, plain, {**forged})

        assert scene.owner_of(created) == scene.owner_of(labelled) == ""


async def test_large_objects_that_missed_admission_are_assigned_by_the_leader(
    service: Service,
) -> None:
    async with service.scene(WIDGETS) as scene:
        large: dict[str, Json] = {"data": {"text": "<" * 1_000_000}}  # six bytes each in a review
        space = scene.namespace
        made = await scene.author.create(CONFIGMAPS, "large", namespace=space, content=large)

        await scene.set_resources(CONFIGMAPS)

        await scene.until_owned(CONFIGMAPS, made)


@pytest.mark.parametrize("forged", ["no-such-shard", None])
@pytest.mark.parametrize("kind", [PODS, WIDGETS], ids=lambda kind: kind.id.resource)
async def test_a_write_of_the_status_does_not_change_the_owner(
    service: Service, kind: Resource, forged: str | None
) -> None:
    async with service.scene(kind) as scene:
        obj = await scene.author.create(
            kind, "thing", namespace=scene.namespace, content=CONTENT.get(kind.kind)
        )
        changes = {scene.owner: forged, scene.drain: "true"}

        after = await scene.author.label(kind, obj, changes, "/status")

        assert after.metadata.labels == {scene.owner: scene.wanted(obj)}
