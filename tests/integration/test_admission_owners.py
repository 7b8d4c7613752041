"""Who owns an object is not the user's to say, and the user never hears of it.

Every write here succeeds: `User` forgives no error.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sharder.core.api.meta import Json, Resource
from sharder.kube.typed_stores import SECRETS
from tests.support.scene import CONTROLLERS, TENANTS, Scene
from tests.support.service import Service
from tests.support.users import (
    CONFIGMAPS,
    CONTENT,
    PLANETS,
    PODS,
    WIDGETS,
    User,
    controlled_by,
)


@asynccontextmanager
async def worker(
    service: Service, scene: Scene, letter: str, namespace: str
) -> AsyncIterator[User]:
    """Act as a pod of the name of a shard, with the token that is bound to it."""
    kubeconfig = await asyncio.to_thread(service.pod, scene.shard(letter), namespace)
    async with service.user(kubeconfig) as user:
        yield user


async def test_a_replace_without_labels_leaves_the_owner(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        before = await scene.create(CONFIGMAPS, "config")

        after = await scene.author.replace(CONFIGMAPS, before)

        assert scene.owner_of(after) == scene.owner_of(before) == scene.wanted(before)


@pytest.mark.parametrize("main", [CONFIGMAPS, SECRETS], ids=lambda main: main.id.resource)
async def test_a_replace_during_a_drain_by_a_pod_that_is_not_the_owner_leaves_all_as_it_was(
    service: Service, main: Resource
) -> None:
    controlled = [CONFIGMAPS] if main is SECRETS else []
    async with (
        service.scene(main, controlled=controlled) as scene,
        worker(service, scene, "elsewhere", TENANTS) as pod,
    ):
        before = await scene.drained(main)

        after = await pod.replace(main, before)

        assert scene.owner_of(after) == scene.owner_of(before)
        assert scene.is_draining(after)


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


async def test_a_forged_owner_of_an_object_that_is_there_is_put_back(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        obj = await scene.create(CONFIGMAPS, "config")

        for forged in (scene.shard("a"), scene.shard("b"), "no-such-shard", "", None):
            after = await scene.author.label(CONFIGMAPS, obj, {scene.owner: forged})

            assert scene.owner_of(after) == scene.wanted(obj), forged


async def test_a_forged_drain_is_removed(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        obj = await scene.create(CONFIGMAPS, "config")

        after = await scene.author.label(CONFIGMAPS, obj, {scene.drain: "true", "app": "shop"})

        assert after.metadata.labels == {scene.owner: scene.wanted(obj), "app": "shop"}


async def test_a_stripped_drain_is_put_back(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        obj = await scene.drained(CONFIGMAPS)

        after = await scene.author.label(CONFIGMAPS, obj, {scene.drain: None})

        assert after.metadata.labels == obj.metadata.labels


async def test_a_shard_releases_what_it_was_asked_for(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene, worker(service, scene, "a", TENANTS) as shard:
        obj = await scene.drained(CONFIGMAPS, frm="a")

        after = await shard.label(CONFIGMAPS, obj, {scene.owner: None, scene.drain: None})

        assert after.metadata.labels == {scene.owner: scene.shard("d")}


async def test_a_child_is_where_its_creator_works(service: Service) -> None:
    async with (
        service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene,
        worker(service, scene, "a", CONTROLLERS) as shard,
    ):
        parents = [await scene.create(SECRETS, name) for name in scene.names_on_each(SECRETS, 2)]

        children = [
            await shard.create(
                CONFIGMAPS, f"child-{index}", namespace=scene.namespace,
                ownerReferences=controlled_by(parent),
            )
            for index, parent in enumerate(parents)
        ]  # fmt: skip

        assert {scene.owner_of(child) for child in children} == {scene.shard("a")}
        assert len({scene.owner_of(parent) for parent in parents}) > 1


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


async def test_a_forged_owner_of_an_object_without_controller_is_removed(
    service: Service,
) -> None:
    async with service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene:
        forged = {scene.owner: scene.shard("a")}

        created = await scene.author.create(
            CONFIGMAPS, "created", namespace=scene.namespace, labels={**forged}
        )
        plain = await scene.author.create(CONFIGMAPS, "plain", namespace=scene.namespace)
        labelled = await scene.author.label(CONFIGMAPS, plain, {**forged})

        assert scene.owner_of(created) == scene.owner_of(labelled) == ""


@pytest.mark.parametrize("letter", ["a", "elsewhere"])
async def test_a_pod_of_a_namespace_without_shards_cannot_choose_the_shard_of_a_child(
    service: Service, letter: str
) -> None:
    async with (
        service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene,
        worker(service, scene, letter, TENANTS) as pod,
    ):
        names = iter(scene.names_on_each(SECRETS, 1))
        owner = await scene.create(SECRETS, next(names))
        while scene.owner_of(owner) == scene.shard("a"):
            owner = await scene.create(SECRETS, next(names))

        child = await pod.create(
            CONFIGMAPS, "child", namespace=scene.namespace,
            labels={scene.owner: scene.shard("a")}, ownerReferences=controlled_by(owner),
        )  # fmt: skip

        assert scene.owner_of(child) == scene.owner_of(owner)


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

        after = await scene.author.label(kind, obj, changes, status=True)

        assert after.metadata.labels == {scene.owner: scene.wanted(obj)}
