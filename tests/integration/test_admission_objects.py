"""Objects of every shape get an owner, and their creators do not notice.

Every write here succeeds: `User` forgives no error.
"""

import asyncio

import pytest

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.names import SYSTEM_NAMESPACE
from sharder.core.placement.hash_ring import HashRing
from tests.support.eventually import eventually, never
from tests.support.scene import TENANTS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, PLANETS, WIDGETS, WITHIN, path_of

ANYTHING: Json = {}
"""A selector that selects all namespaces."""

MEGABYTE = 1_000_000
"""Of a character that the API server writes as six bytes into a review."""

DEEP = 5_000
"""Levels of nesting: more than a JSON decoder takes, less than the API server's 10,000."""


@pytest.mark.parametrize("kind", [CONFIGMAPS, WIDGETS, PLANETS], ids=lambda kind: kind.kind)
async def test_objects_with_generated_names_are_where_their_names_belong(
    service: Service, kind: Resource
) -> None:
    async with service.scene(kind) as scene:
        made = [
            await scene.author.create(kind, namespace=scene.place(kind), generateName="thing-")
            for _ in range(60)  # so that none of three shards goes without: by chance 1 in 10^9
        ]

        assert [scene.owner_of(obj) for obj in made] == [scene.wanted(obj) for obj in made]
        assert {scene.owner_of(obj) for obj in made} == scene.shards
        assert len({obj.metadata.name for obj in made}) == 60
        assert all(obj.metadata.name.startswith("thing-") for obj in made)


async def test_cluster_scoped_objects_move_when_their_shard_goes(service: Service) -> None:
    async with service.scene(PLANETS) as scene:
        made = [await scene.create(PLANETS, name) for name in scene.names_on_each(PLANETS, 3)]
        assert {scene.owner_of(obj) for obj in made} == scene.shards

        await scene.leave("a")

        for obj in made:
            await scene.until_owned(PLANETS, obj)


async def test_a_large_object_is_assigned_as_it_is_created_and_kept_as_it_is_replaced(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        large: dict[str, Json] = {"data": {"text": "<" * MEGABYTE}}

        created = await scene.author.create(
            CONFIGMAPS, "large", namespace=scene.namespace, content=large
        )
        replaced = await scene.author.replace(
            CONFIGMAPS, created, content=large, annotations={"replaced": "true"}
        )

        assert scene.owner_of(created) == scene.owner_of(replaced) == scene.wanted(created)


async def test_large_objects_that_missed_admission_are_assigned_by_the_leader(
    service: Service,
) -> None:
    async with service.scene(WIDGETS) as scene:
        large: dict[str, Json] = {"data": {"text": "<" * MEGABYTE}}
        made = await scene.author.create(
            CONFIGMAPS, "large", namespace=scene.namespace, content=large
        )

        await scene.set_resources(CONFIGMAPS)

        await scene.until_owned(CONFIGMAPS, made)


@pytest.mark.parametrize("depth", [100, 1_000, DEEP, 9_000])
async def test_a_deep_object_is_assigned_in_seconds(service: Service, depth: int) -> None:
    async with service.scene(WIDGETS) as scene:
        await create_deep(service, scene, depth)

        await until_deep_is_owned(service, scene)


async def test_a_deep_object_does_not_keep_others_from_their_owners(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        await create_deep(service, scene, DEEP)
        other = await scene.author.create(WIDGETS, "zzz", namespace=scene.namespace)

        await scene.set_resources(WIDGETS)

        await scene.until_owned(WIDGETS, other)


@pytest.mark.parametrize("namespace", ["kube-system", SYSTEM_NAMESPACE])
async def test_namespaces_of_the_system_are_left_alone_by_a_ring_over_everything(
    service: Service, namespace: str
) -> None:
    async with service.scene(CONFIGMAPS, namespaceSelector=ANYTHING) as scene:
        system = await scene.admin.create(CONFIGMAPS, scene.ring, namespace=namespace)
        witness = await scene.author.create(CONFIGMAPS, scene.ring, namespace=TENANTS)

        await scene.leave(scene.owner_of(witness)[-1])
        await scene.until_owned(CONFIGMAPS, witness)

        assert system.metadata.labels is None
        assert await owner_now(scene, system) == ""


async def test_objects_that_another_selector_selects_are_left_alone(service: Service) -> None:
    selector: Json = {"matchLabels": {"app": "shop"}}
    async with service.scene(CONFIGMAPS, shards="", objectSelector=selector) as scene:
        await scene.join("a")

        async def chosen() -> PartialObject:
            obj = await scene.author.create(
                CONFIGMAPS, namespace=scene.namespace, generateName="in-", labels={"app": "shop"}
            )
            assert scene.owner_of(obj) == scene.shard("a")
            return obj

        await eventually(chosen, within=WITHIN)
        other = await scene.create(CONFIGMAPS, "out")

        assert scene.owner_of(other) == ""


async def test_a_namespace_stays_together_where_a_ring_wants_it(service: Service) -> None:
    whole: Json = [{"group": "", "resource": "configmaps", "hashKey": "Namespace"}]
    async with service.scene(CONFIGMAPS, resources=whole, shards="") as scene:
        shards = {await scene.join(letter) for letter in "abc"}
        wanted = HashRing(shards).owner(f"/ConfigMap/{scene.namespace}/")

        async def owners() -> bool:
            made = [
                await scene.author.create(
                    CONFIGMAPS, namespace=scene.namespace, generateName="config-"
                )
                for _ in range(10)
            ]
            return {scene.owner_of(obj) for obj in made} == {wanted}

        await eventually(owners, within=WITHIN)


async def test_a_dry_run_shows_what_would_be_and_is_not_counted(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        names = [f"config-{index}" for index in range(5)]
        shown = [
            await scene.author.create(CONFIGMAPS, name, namespace=scene.namespace, dry_run=True)
            for name in names
        ]

        made = [await scene.create(CONFIGMAPS, name) for name in names]

        assert [obj.metadata.labels for obj in shown] == [obj.metadata.labels for obj in made]

        async def counted() -> bool:
            return await assignments(service, scene) == len(names)

        await eventually(counted, within=WITHIN)
        await never(lambda: more_assignments(service, scene, len(names)), during=0.5)


async def create_deep(service: Service, scene: Scene, depth: int) -> None:
    """Create a widget that is nested so deep; kubectl sends the text as it is."""
    head = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"deep"},"spec":'
    manifest = head + '{"a":' * depth + "1" + "}" * depth + "}"
    create = ("create", "--raw", path_of(WIDGETS, scene.namespace), "-f", "-")
    await asyncio.to_thread(
        service.plane.kubectl, *create, kubeconfig=service.author, stdin=manifest
    )


async def until_deep_is_owned(service: Service, scene: Scene) -> None:
    """Wait for the owner of the deep widget, which no JSON decoder here can read."""
    metadata = ObjectMeta(namespace=scene.namespace, name="deep")
    wanted = scene.wanted(
        PartialObject(api_version="example.com/v1", kind="Widget", metadata=metadata)
    )
    get = ("get", "widgets", "-n", scene.namespace, "-l", f"{scene.owner}={wanted}", "-o", "name")

    async def owned() -> bool:
        return "deep" in await asyncio.to_thread(service.plane.kubectl, *get)

    await eventually(owned, within=WITHIN)


async def owner_now(scene: Scene, obj: PartialObject) -> str:
    return scene.owner_of(await scene.get(CONFIGMAPS, obj))


async def assignments(service: Service, scene: Scene) -> float:
    return await service.metric("assignments_total", controllerring=scene.ring)


async def more_assignments(service: Service, scene: Scene, than: int) -> bool:
    return await assignments(service, scene) > than
