"""The other adapters of `sharder.kube`, and what only a real API server can tell of them."""

import asyncio
import base64
import uuid

import msgspec
import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import Expired, Forbidden, Rejected
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.client import Client, connect
from sharder.kube.events import KubeRecorder
from sharder.kube.objects import KubeObjects
from sharder.kube.reviews import whoami
from sharder.kube.store import PAGE_LIMIT, KubeStore
from sharder.kube.typed_stores import (
    MUTATING,
    leases,
    namespaces,
    secrets,
)
from sharder.runtime.clock import SystemClock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.task_pool import batch
from sharder.sdk.testing.fake_clock import FixedRng
from tests.support.eventually import eventually

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Gadget(PartialObject, frozen=True, kw_only=True):
    """A custom resource with a status."""

    spec: dict[str, str] | None = None
    status: dict[str, str] | None = None


@pytest.fixture
async def gadget(client: Client) -> Resource:
    """A custom resource that was not served when the server started."""
    group = f"g{uuid.uuid4().hex[:12]}.example.com"
    anything: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": anything, "status": anything},
            }
        },
    }
    crd: Json = {
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.request("POST", path, body=crd)
    resource = GroupResource(group, "gadgets")
    return await eventually(lambda: KubeObjects(client).find(resource), within=20)


async def test_a_watch_from_before_the_servers_window_has_expired(
    client: Client, gadget: Resource
) -> None:
    store = KubeStore(client, Gadget, gadget)
    await eventually(store.list, within=20)

    with pytest.raises(Expired):
        async with asyncio.timeout(10):
            _ = [event async for event in store.watch("1")]


async def test_the_status_is_written_apart_from_the_rest(
    client: Client, gadget: Resource, own_namespace: str
) -> None:
    store = KubeStore(client, Gadget, gadget)
    body: Json = {
        "apiVersion": f"{gadget.id.group}/{gadget.version}",
        "kind": gadget.kind,
        "metadata": {"name": "a"},
        "spec": {"size": "1"},
    }
    created = await eventually(lambda: store.create(own_namespace, body), within=20)
    both: Json = {"spec": {"size": "2"}, "status": {"ready": "yes"}}

    await store.status().patch(created.metadata.ref, both)

    stored = await store.get(created.metadata.ref)
    assert (stored.spec, stored.status) == ({"size": "1"}, {"ready": "yes"})


async def test_a_list_of_several_pages_is_whole(client: Client, own_namespace: str) -> None:
    count = PAGE_LIMIT + 1
    labels: Json = {"of": own_namespace}
    objects = KubeObjects(client)
    maps = objects.of(await objects.find(GroupResource("", "configmaps")), f"of={own_namespace}")
    async with batch(20) as creates:
        for number in range(count):
            body: Json = {"metadata": {"name": f"n{number}", "labels": labels}}
            await creates.add(maps.create(own_namespace, body))

    listed = await maps.list()
    streamed = [obj async for obj in maps.stream()]

    assert len({obj.metadata.name for obj in listed.items}) == count
    assert streamed == list(listed.items)


async def test_a_missing_right_is_named(control_plane: ControlPlane) -> None:
    alice = await connect(str(control_plane.kubeconfig("alice")))

    with pytest.raises(Forbidden, match=r'User "alice" cannot list resource "leases".*grant it'):
        await leases(alice).list()

    await alice.close()


async def test_an_invalid_object_is_rejected(client: Client, own_namespace: str) -> None:
    with pytest.raises(Rejected, match="UPPER"):
        await leases(client).create(own_namespace, {"metadata": {"name": "UPPER"}})


async def test_the_server_knows_us_by_name(control_plane: ControlPlane) -> None:
    alice = await connect(str(control_plane.kubeconfig("alice")))

    assert await whoami(alice) == "alice"

    await alice.close()


async def test_a_secret_keeps_its_data_out_of_its_repr(client: Client, own_namespace: str) -> None:
    data = {"tls.key": base64.b64encode(b"private").decode()}
    store = secrets(client, namespace=own_namespace)
    await store.create(own_namespace, {"metadata": {"name": "a"}, "data": data})

    secret = await store.get(ObjectRef(own_namespace, "a"))

    assert (secret.data, secret.type, secret.kind) == (data, "Opaque", "Secret")
    assert data["tls.key"] not in repr(secret)


async def test_a_webhook_configuration_is_applied_over_what_others_wrote(client: Client) -> None:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    webhooks = KubeObjects(client).of(MUTATING)
    body: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "labels": {"of": name}},
    }
    relabel: Json = {"metadata": {"labels": {"of": "others"}}}

    applied = await webhooks.apply(ObjectRef("", name), body)
    again = await webhooks.apply(ObjectRef("", name), body)
    assert again.metadata.resource_version == applied.metadata.resource_version
    assert (await webhooks.get(applied.metadata.ref)).metadata == again.metadata
    await client.request(
        "PATCH", f"{WEBHOOKS}/{name}", body=relabel, content_type="application/merge-patch+json"
    )
    await webhooks.apply(ObjectRef("", name), body)

    (found,) = [obj async for obj in webhooks.stream(f"of={name}")]
    assert (found.metadata.uid, found.kind) == (
        applied.metadata.uid,
        "MutatingWebhookConfiguration",
    )

    meta = found.metadata
    await webhooks.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)

    assert [obj async for obj in webhooks.stream(f"of={name}")] == []


async def test_a_warning_about_a_cluster_scoped_object_is_an_event_in_default(
    client: Client, own_namespace: str
) -> None:
    about = await namespaces(client).get(ObjectRef("", own_namespace))
    path = "/api/v1/namespaces/default/events"
    query = {"fieldSelector": f"involvedObject.name={own_namespace}"}

    await KubeRecorder(client, clock=SystemClock()).warn(about, "TooMany", "too many shards")

    events = msgspec.json.decode(await client.request("GET", path, query=query))["items"]
    (event,) = events
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "TooMany",
        "too many shards",
        1,
    )
    assert event["source"]["component"] == "sharder"
    assert event["involvedObject"]["uid"] == about.metadata.uid


async def test_a_lease_is_held_renewed_and_handed_over(client: Client, own_namespace: str) -> None:
    store, ref = leases(client, namespace=own_namespace), ObjectRef(own_namespace, "shard-a")
    timing = LeaseTiming(lease_duration=30, renew_deadline=20.0, retry_period=0.1)
    first, second = (
        LeaseHolder(store, ref, name, clock=SystemClock(), rng=FixedRng(), timing=timing)
        for name in ("first", "second")
    )
    await first.acquire()
    acquired = (await store.get(ref)).spec

    async def is_renewed() -> bool:
        return (await store.get(ref)).spec.renew_time != acquired.renew_time

    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(first.keep())
        await eventually(is_renewed, within=20)
        keeping.cancel()
    await first.release()
    async with asyncio.timeout(20):
        await second.acquire()

    taken = (await store.get(ref)).spec
    assert (taken.holder_identity, taken.lease_transitions) == ("second", 1)
    assert not first.valid(SystemClock().monotonic())
    assert second.valid(SystemClock().monotonic())
