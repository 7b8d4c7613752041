"""What stands between the API server and the webhook may be wrong, and users notice nothing."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest

from hack.control_plane import KubectlError
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import (
    FIELD_MANAGER,
    POOL_LABEL,
    RingName,
    webhook_configuration,
    webhook_path,
)
from sharder.core.ring.snapshot import RingSnapshot
from sharder.kube.client import Client, connect
from sharder.kube.typed_stores import RINGS
from sharder.tls import issue as tls
from tests.support.eventually import eventually
from tests.support.later_webhook import later_webhook, pointer
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, CONTENT, PODS, WEBHOOKS, WITHIN
from tests.unit.webhook.reviews import Counts, validation_with
from webhook import Server, ServerTls, Webhook
from webhook.endpoint import AdmissionEndpoint

HOST = "127.0.0.1"


async def test_a_deleted_ring_blocks_no_create(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene, asyncio.TaskGroup() as group:
        began, gone = asyncio.Event(), asyncio.Event()
        creating = group.create_task(create_until(gone, scene, began))
        await began.wait()

        await scene.clean_up()
        gone.set()

        made = await creating
        assert scene.owner_of(made[0]) == scene.wanted(made[0])
        assert scene.owner_of(made[-1]) == ""


async def test_a_failing_webhook_lets_creates_and_updates_pass_with_a_warning(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene, failing_webhook() as client_config:
        async with configured(service, scene, client_config) as namespace:
            warning = await until_warned(service, namespace)
            made = await scene.author.create(CONFIGMAPS, "config", namespace=namespace)
            replaced = await scene.author.replace(CONFIGMAPS, made)

        assert "the sharder failed on this request" in warning
        assert made.metadata.labels is None
        assert replaced.metadata.labels is None


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "https://sharder.invalid"])
async def test_a_webhook_that_cannot_be_reached_lets_creates_pass(
    service: Service, url: str
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        client_config: Json = {"url": url + webhook_path(scene.ring)}

        async with configured(service, scene, client_config) as namespace:
            made = [
                await scene.author.create(CONFIGMAPS, f"config-{index}", namespace=namespace)
                for index in range(5)
            ]

        assert all(obj.metadata.labels is None for obj in made)


async def test_the_references_sharder_takes_over_without_a_trace_of_ours(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        name = webhook_configuration(scene.ring)

        taken_over = await apply(service, await as_the_reference_writes_it(service, scene, name))
        fresh = await apply(
            service, await as_the_reference_writes_it(service, scene, f"{name}-fresh")
        )

        await scene.admin.delete(WEBHOOKS, f"{name}-fresh")
        assert content_of(taken_over) == content_of(fresh)
        assert "matchConditions" not in taken_over


async def test_ours_takes_over_without_a_trace_of_the_references(service: Service) -> None:
    async with service.scene(CONFIGMAPS) as scene:
        name = webhook_configuration(scene.ring)
        ours = await configuration(service, name)
        theirs = await as_the_reference_writes_it(service, scene, name)
        assert "DoesNotExist" in await apply(service, theirs)

        await scene.admin.patch(RINGS, scene.ring, {"spec": {"objectSelector": {}}})

        async def taken_over() -> bool:
            return content_of(await configuration(service, name)) == content_of(ours)

        await eventually(taken_over, within=WITHIN)


@pytest.mark.parametrize("strategy", ["ConsistentHash", "Spread", "LeastLoaded"])
async def test_objects_that_a_later_webhook_gives_a_pool_are_created_there(
    service: Service, strategy: str
) -> None:
    pools = {"a": {}, "b": {}, "c": {"pool": "blue"}}
    async with (
        service.scene(CONFIGMAPS, shards=pools, placement={"strategy": strategy}) as scene,
        connected(service) as client,
        later_webhook(
            client, service.plane.directory, of=CONFIGMAPS.id, label=scene.ring, patch=into_blue
        ),
    ):
        made = [
            await scene.create(CONFIGMAPS, f"config-{n}", **{scene.ring: "yes"}) for n in range(10)
        ]

        assert {scene.owner_of(obj) for obj in made} == {scene.shard("c")}
        assert {obj.metadata.label(POOL_LABEL) for obj in made} == {"blue"}


async def test_without_later_webhooks_an_object_costs_one_call(service: Service) -> None:
    async with service.scene(PODS) as scene:
        calls = await service.metric("admission_answers_total", controllerring=scene.ring)

        for number in range(10):
            await scene.author.create(
                PODS, f"pod-{number}", namespace=scene.namespace, content=CONTENT["Pod"]
            )

        async def called() -> bool:
            now = await service.metric("admission_answers_total", controllerring=scene.ring)
            return now == calls + 10

        await eventually(called, within=WITHIN)


def into_blue(obj: PartialObject) -> list[Json]:
    """Put an object into a pool, as a policy would."""
    return [{"op": "add", "path": pointer(POOL_LABEL), "value": "blue"}]


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[Client]:
    """Connect as the admin."""
    client = await connect(str(service.admin))
    try:
        yield client
    finally:
        await client.close()


async def create_until(
    done: asyncio.Event, scene: Scene, began: asyncio.Event
) -> list[PartialObject]:
    """Create objects one after another, and a few after `done`; say when the first is there."""
    made: list[PartialObject] = []
    left = 5
    while left:
        left -= done.is_set()
        made.append(await scene.create(CONFIGMAPS, f"config-{len(made)}"))
        began.set()
    return made


@asynccontextmanager
async def configured(service: Service, scene: Scene, client_config: Json) -> AsyncIterator[str]:
    """Have a webhook called for a namespace of its own; the ring's stands aside."""
    namespace = f"{scene.ring}-apart"
    await scene.open_namespace(namespace)
    name = f"{scene.ring}-apart"
    webhook = {
        **json.loads(await configuration(service, webhook_configuration(scene.ring)))["webhooks"][
            0
        ],
        "clientConfig": client_config,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    await scene.admin.create(WEBHOOKS, name, content={"webhooks": [webhook]})
    try:
        yield namespace
    finally:
        await scene.admin.delete(WEBHOOKS, name)


@asynccontextmanager
async def failing_webhook() -> AsyncIterator[Json]:
    """Serve a webhook that fails on each request; yield how to reach it."""

    def fail(name: RingName) -> RingSnapshot | None:
        raise RuntimeError(name)

    now = datetime.now(UTC)
    authority = tls.make_authority(now)
    pair = tls.issue_serving(
        authority,
        dns_names=["localhost"],
        ip_addresses=[ip_address(HOST)],
        now=now,
        validity=timedelta(days=1),
    )
    app = Webhook(
        AdmissionEndpoint(
            rings=fail,
            sharders=frozenset[str],
            is_stale=lambda: False,
            observer=Counts(),
        ),
        readiness=lambda: None,
        validation=validation_with(),
    )
    identity = ServerTls(pair.certificate, pair.key)
    async with Server(app, host=HOST, port=0, tls=identity) as server:
        yield {
            "url": f"https://{HOST}:{server.port}{webhook_path(RingName('any'))}",
            "caBundle": base64.b64encode(authority.certificate).decode(),
        }


async def until_warned(service: Service, namespace: str) -> str:
    """Wait until a create is answered with a warning; return it."""
    command = ("create", "configmap", "probe", "-n", namespace, "--dry-run=server")

    async def warned() -> str:
        try:
            await asyncio.to_thread(
                service.plane.kubectl, *command, "--warnings-as-errors",
                kubeconfig=service.author,
            )  # fmt: skip
        except KubectlError as error:
            return str(error)
        raise AssertionError("no warning")

    return await eventually(warned, within=WITHIN)


async def configuration(service: Service, name: str) -> str:
    """Return a webhook configuration as JSON."""
    return await asyncio.to_thread(
        service.plane.kubectl, "get", "mutatingwebhookconfiguration", name, "-o", "json"
    )


async def own_client_config(service: Service, scene: Scene) -> dict[str, Json]:
    """Return how the API server reaches the service."""
    text = await configuration(service, webhook_configuration(scene.ring))
    found: dict[str, Json] = json.loads(text)["webhooks"][0]["clientConfig"]
    return found


async def as_the_reference_writes_it(service: Service, scene: Scene, name: str) -> Json:
    """Return the configuration that timebertt/kubernetes-controller-sharding v0.13 applies."""
    ring = await scene.admin.get(RINGS, scene.ring)
    expression: Json = {"key": scene.owner, "operator": "DoesNotExist"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": "controller-sharding",
                "alpha.sharding.timebertt.dev/controllerring": scene.ring,
            },
            "ownerReferences": [
                {
                    "apiVersion": "sharding.timebertt.dev/v1alpha1",
                    "kind": "ControllerRing",
                    "name": scene.ring,
                    "uid": ring.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "webhooks": [
            {
                "name": "sharder.sharding.timebertt.dev",
                "clientConfig": await own_client_config(service, scene),
                "namespaceSelector": {"matchLabels": {"example.com/ring": scene.ring}},
                "objectSelector": {"matchExpressions": [expression]},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["configmaps"],
                        "scope": "*",
                    }
                ],
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": 5,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def apply(service: Service, manifest: Json) -> str:
    """Apply as the reference does; return the result as JSON."""
    command = ("apply", "--server-side", "--force-conflicts", "-o", "json", "-f", "-")
    manager = f"--field-manager={FIELD_MANAGER}"
    return await asyncio.to_thread(
        service.plane.kubectl, *command, manager, stdin=json.dumps(manifest)
    )


def content_of(text: str) -> tuple[Json, ...]:
    """Return all of a configuration but what the API server adds."""
    document = json.loads(text)
    meta = document["metadata"]
    parts = (meta.get("labels"), meta.get("annotations"), meta.get("ownerReferences"))
    return (*parts, document["webhooks"])
