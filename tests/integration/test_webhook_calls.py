"""For which requests the API server calls the webhook, and for which it evaluates expressions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeAlias

from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import LABELLED_WEBHOOK_NAME
from sharder.kube.typed_stores import NAMESPACES, SECRETS
from tests.support.eventually import eventually
from tests.support.samples import total
from tests.support.scene import CONTROLLERS, LABEL, TENANTS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WIDGETS, WITHIN, controlled_by

EVALUATIONS = "apiserver_admission_match_condition_evaluation_seconds_count"
"""The API server counts only those that keep it from calling a webhook."""

BLUE: Final = {"team": "blue"}

Request: TypeAlias = Callable[[], Awaitable[PartialObject]]


class Calls:
    """Counts the calls of a ring's webhooks."""

    def __init__(self, service: Service, scene: Scene, before: float) -> None:
        self._service = service
        self._ring = scene.ring
        self._seen = before

    async def of(self, request: Request, expected: int) -> PartialObject:
        """Send a request and check how often it calls the webhook; return the answer."""
        answer = await request()
        self._seen += expected

        async def counted() -> None:
            assert await counted_of(self._service, self._ring) == self._seen, answer.metadata

        await eventually(counted, within=WITHIN)
        return answer


async def counted_of(service: Service, ring: str) -> float:
    return await service.metric("admission_answers_total", controllerring=ring)


async def calls_of(service: Service, scene: Scene) -> Calls:
    return Calls(service, scene, await counted_of(service, scene.ring))


async def test_a_request_about_a_main_object_calls_the_webhook_once_if_labels_are_at_stake(
    service: Service,
) -> None:
    async with service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene:
        author, space, forged = scene.author, scene.namespace, {scene.owner: "no-such-shard"}
        calls = await calls_of(service, scene)

        await calls.of(
            lambda: author.create(SECRETS, "forged", namespace=space, labels={**forged}), 1
        )
        obj = await calls.of(lambda: scene.create(SECRETS, "secret"), 1)
        other = min(scene.shards - {scene.wanted(obj)})

        for labels, expected in (
            ({"app": "shop"}, 0),
            (forged, 1),
            ({scene.owner: other}, 1),
            ({scene.owner: ""}, 1),
            ({scene.owner: None}, 1),
            ({scene.drain: "true"}, 1),
        ):
            after = await calls.of(partial(author.label, SECRETS, obj, labels), expected)
            assert scene.owner_of(after) == scene.owner_of(obj) == scene.wanted(obj), labels
            assert not scene.is_draining(after), labels
        replaced = await calls.of(lambda: author.replace(SECRETS, obj), 1)
        assert scene.owner_of(replaced) == scene.owner_of(obj)


async def test_an_unassigned_object_gets_no_owner_from_a_user(service: Service) -> None:
    async with service.scene(CONFIGMAPS, shards="") as scene:

        async def removed() -> PartialObject:
            obj = await scene.author.create(
                CONFIGMAPS, namespace=scene.namespace, generateName="config-"
            )
            after = await scene.author.label(CONFIGMAPS, obj, {scene.owner: "no-such-shard"})
            assert scene.owner_of(after) == ""
            return after

        obj = await eventually(removed, within=WITHIN)
        await scene.join("a")
        await scene.until_owned(CONFIGMAPS, obj)


async def test_an_acknowledgement_calls_the_webhook_once(service: Service) -> None:
    async with (
        service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene,
        service.as_pod(scene.shard("elsewhere"), TENANTS) as another,
    ):
        obj = await scene.drained(SECRETS)
        calls = await calls_of(service, scene)

        for other in (
            partial(scene.author.label, SECRETS, obj, {scene.drain: None}),
            partial(another.replace, SECRETS, obj),
        ):
            after = await calls.of(other, 1)
            assert after.metadata.labels == obj.metadata.labels
        await calls.of(lambda: scene.acknowledge(SECRETS, obj), 1)

        # The leader hands it over, which calls no webhook.
        await scene.until_owned(SECRETS, obj)
        await calls.of(lambda: scene.create(SECRETS, "last"), 1)


async def test_a_child_calls_the_webhook_unless_its_shard_creates_it(service: Service) -> None:
    async with (
        service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene,
        service.as_pod(scene.shard("a"), CONTROLLERS) as shard,
        service.as_pod(scene.shard("a"), TENANTS) as namesake,
    ):
        names = iter(scene.names_on_each(SECRETS, 1))
        parent = await scene.create(SECRETS, next(names))
        while scene.owner_of(parent) == scene.shard("a"):
            parent = await scene.create(SECRETS, next(names))
        calls = await calls_of(service, scene)

        theirs = scene.owner_of(parent)
        for number, (writer, owner, expected, created) in enumerate(
            (
                (shard, scene.shard("a"), 0, scene.shard("a")),
                (shard, scene.shard("b"), 1, scene.shard("a")),
                (shard, "", 1, scene.shard("a")),
                (namesake, scene.shard("a"), 1, theirs),
                # May be a shard that runs outside of a pod.
                (scene.author, scene.shard("a"), 1, scene.shard("a")),
                (scene.author, "", 1, theirs),
            )
        ):
            labels: Json = {scene.owner: owner} if owner else {}
            create = partial(
                writer.create, CONFIGMAPS, f"child-{number}", namespace=scene.namespace,
                labels=labels, ownerReferences=controlled_by(parent),
            )  # fmt: skip
            assert scene.owner_of(await calls.of(create, expected)) == created, number


async def test_what_the_leader_assigns_calls_no_webhook(service: Service) -> None:
    async with service.scene(SECRETS, controlled=[CONFIGMAPS]) as scene:
        space = f"{scene.ring}-late"
        await scene.open_namespace(space)
        late = await scene.author.create(SECRETS, "late", namespace=space)
        calls = await calls_of(service, scene)

        body: Json = {"metadata": {"labels": {LABEL: scene.ring}}}
        await scene.admin.patch(NAMESPACES, space, body)

        await scene.until_owned(SECRETS, late)
        await calls.of(lambda: scene.create(SECRETS, "last"), 1)


async def test_the_status_of_a_custom_resource_costs_no_evaluation(service: Service) -> None:
    async with service.scene(WIDGETS) as scene:
        obj = await scene.create(WIDGETS, "widget")
        before = await evaluations(service)

        await scene.author.label(WIDGETS, obj, {"app": "shop"}, "/status")
        of_status = await evaluations(service)
        await scene.author.label(WIDGETS, obj, {"app": "shop"})

        assert (of_status, await evaluations(service)) == (before, before + 1)


async def evaluations(service: Service) -> float:
    scrape = await asyncio.to_thread(service.plane.kubectl, "get", "--raw", "/metrics")
    return total(scrape, EVALUATIONS, name=LABELLED_WEBHOOK_NAME)


async def test_an_object_that_comes_into_scope_with_an_owner_that_is_gone_gets_another(
    service: Service,
) -> None:
    async with scene_of_blue(service) as scene:
        obj = await blue(scene)
        await scene.author.label(CONFIGMAPS, obj, {"team": None})
        await scene.leave(scene.owner_of(obj)[-1])
        await scene.until_available()

        after = await scene.author.label(CONFIGMAPS, obj, BLUE)

        assert {scene.owner_of(after)} == scene.shards


async def test_an_object_that_leaves_the_scope_keeps_its_owner(service: Service) -> None:
    async with scene_of_blue(service) as scene:
        obj = await blue(scene)

        after = await scene.author.replace(CONFIGMAPS, obj)

        assert after.metadata.labels == {scene.owner: scene.owner_of(obj)}


@asynccontextmanager
async def scene_of_blue(service: Service) -> AsyncIterator[Scene]:
    """A ring of two shards over blue ConfigMaps."""
    selector: Json = {"matchLabels": {**BLUE}}
    async with service.scene(CONFIGMAPS, shards="", objectSelector=selector) as scene:
        for letter in "ab":
            await scene.join(letter)
        await scene.until_available()
        yield scene


async def blue(scene: Scene) -> PartialObject:
    """Create a ConfigMap that the ring selects, and that has an owner."""

    async def owned() -> PartialObject:
        obj = await scene.author.create(
            CONFIGMAPS, namespace=scene.namespace, generateName="blue-", labels={**BLUE}
        )
        assert scene.owner_of(obj) in scene.shards
        return obj

    return await eventually(owned, within=WITHIN)
