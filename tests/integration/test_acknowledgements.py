"""What ends a drain, and what a client hears that drops the labels of a draining object."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import pytest

from hack.control_plane import KubectlError
from sharder.core.api.meta import Json, PartialObject, Resource
from tests.support.console import events_of
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, TENANTS, Scene
from tests.support.service import ACCOUNT, Service
from tests.support.users import CONFIGMAPS, CONTENT, PODS, WIDGETS, WITHIN, User

LARGE: Final = "x" * 200_000
"""A review of an object with this goes through a sieve."""

BEFORE: Final[Mapping[str, Mapping[str, Json]]] = {
    "ConfigMap": {"data": {"key": LARGE}},
    "Widget": {"spec": {"size": 1}},
    "Pod": CONTENT["Pod"],
}
AFTER: Final[Mapping[str, Mapping[str, Json]]] = {
    "ConfigMap": {"data": {"key": LARGE + "x"}},
    "Widget": {"spec": {"size": 2}},
    "Pod": {"spec": {"activeDeadlineSeconds": 60}},
}
"""What objects of a kind have beside their metadata."""

every_kind = pytest.mark.parametrize("of", [CONFIGMAPS, WIDGETS, PODS], ids=lambda kind: kind.kind)


@asynccontextmanager
async def account(service: Service, namespace: str, pod: str = "") -> AsyncIterator[User]:
    """Write as the ServiceAccount of a namespace, with the token of a pod or with another one."""
    token = service.plane.token_kubeconfig
    async with service.user(await asyncio.to_thread(token, namespace, ACCOUNT, pod=pod)) as user:
        yield user


async def draining(scene: Scene, of: Resource, count: int) -> list[PartialObject]:
    """Create objects that drain from shard a to shard d."""
    names = scene.names_moving(of, "d", frm="a")
    made = [
        await scene.author.create(
            of, next(names), namespace=scene.namespace, content=BEFORE[of.kind],
            labels={"app": "shop"}, annotations={"note": "1"}, finalizers=["example.com/mine"],
        )
        for _ in range(count)
    ]  # fmt: skip
    await scene.join("d")
    return [await scene.until_draining(of, obj) for obj in made]


def release(scene: Scene, content: Mapping[str, Json] | None = None, **metadata: Json) -> Json:
    """Return a patch that removes both labels, and changes this too."""
    labels = {scene.owner: None, scene.drain: None}
    return {**(content or {}), "metadata": {"labels": labels, **metadata}}


@every_kind
async def test_the_shard_releases_an_object_whatever_else_is_in_its_write(
    service: Service, of: Resource
) -> None:
    async with (
        service.scene(of) as scene,
        account(service, TENANTS, scene.shard("a")) as shard,
        account(service, CONTROLLERS) as unbound,
    ):
        patches = (
            (shard, release(scene, AFTER[of.kind], annotations={"note": "2"}, finalizers=None)),
            (unbound, release(scene, annotations={"note": "2"}, finalizers=None)),
            (unbound, release(scene)),
            (scene.author, release(scene, finalizers=None)),
        )
        objs = await draining(scene, of, len(patches))

        after = [
            await by.patch(of, obj.metadata.name, patch, namespace=scene.namespace)
            for obj, (by, patch) in zip(objs, patches, strict=True)
        ]

        assert [obj.metadata.labels for obj in after] == len(patches) * [
            {scene.owner: scene.shard("d"), "app": "shop"}
        ]


async def test_a_person_hears_what_the_webhook_restored_and_what_to_do_instead(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        obj, idle = await scene.drained(CONFIGMAPS), await scene.create(CONFIGMAPS, "idle")
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "new"}}

        async def heard(*command: str, of: PartialObject, stdin: str | None = None) -> str:
            with pytest.raises(KubectlError) as caught:
                await asyncio.to_thread(
                    service.plane.kubectl, *command, "-n", scene.namespace,
                    "--warnings-as-errors", kubeconfig=service.author, stdin=stdin,
                )  # fmt: skip
            assert (await scene.get(CONFIGMAPS, of)).metadata.labels == of.metadata.labels
            return str(caught.value)

        replaced = await heard(
            "replace", "-f", "-", of=obj,
            stdin=json.dumps({**manifest, "metadata": {"name": obj.metadata.name}}),
        )  # fmt: skip
        moved = await heard(
            "label", "--overwrite", "configmap", "idle", f"{scene.owner}=mine", of=idle
        )

        assert "the update replaces the object, so it is no acknowledgement" in replaced
        assert 'to move it, use "sharder pin"' in moved
        # A replace of an object that does not drain means nothing by the labels that it omits.
        await asyncio.to_thread(
            service.plane.kubectl, "replace", "-f", "-", "-n", scene.namespace,
            "--warnings-as-errors", kubeconfig=service.author,
            stdin=json.dumps({**manifest, "metadata": {"name": "idle"}}),
        )  # fmt: skip


async def test_an_acknowledgement_that_is_refused_again_and_again_is_an_event(
    service: Service,
) -> None:
    async with (
        service.scene(WIDGETS) as scene,
        account(service, CONTROLLERS) as unbound,
    ):
        twice, often = await draining(scene, WIDGETS, 2)
        for obj in (often, often, twice, twice, often):
            await unbound.replace(
                WIDGETS,
                obj,
                resourceVersion=(await scene.get(WIDGETS, obj)).metadata.resource_version,
            )

        async def told() -> list[str]:
            events = await events_of(service, scene.namespace, often.metadata.name)
            assert events
            return [text for reason, text in events if reason == "AcknowledgementRefused"]

        assert await eventually(told, within=WITHIN) == [
            f"ring {scene.ring}: drain not acknowledged, labels restored: "
            "the update replaces the object"
        ]
        assert not await events_of(service, scene.namespace, twice.metadata.name)
