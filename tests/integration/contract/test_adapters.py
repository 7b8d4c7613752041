"""The other adapters of `sharder.kube`, and what only a real API server can tell of them."""

import asyncio
import base64
import uuid

import msgspec
import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import Expired, Forbidden, Rejected
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.reviews import whoami
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import EVENTS, MUTATING, NAMESPACES, leases, secrets
from sharder.runtime.clock import SystemClock
from sharder.runtime.events import Recorder
from tests.integration.contract.conftest import CRDS, crd
from tests.support.eventually import eventually

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture
async def gadget(client: Client) -> Resource:
    """A custom resource that was not served when the server started."""
    group = f"g{uuid.uuid4().hex[:12]}.example.com"
    await client.request("POST", CRDS, body=crd("gadgets", group, "Gadget"))
    resource = GroupResource(group, "gadgets")
    return await eventually(lambda: KubeObjects(client).find(resource), within=20)


async def test_a_watch_from_before_the_servers_window_has_expired(
    client: Client, gadget: Resource
) -> None:
    store = KubeStore(client, PartialObject, gadget)
    await eventually(store.list, within=20)

    with pytest.raises(Expired):
        async with asyncio.timeout(10):
            _ = [event async for event in store.watch("1")]


async def test_the_server_knows_us_by_name_and_names_a_missing_right(
    control_plane: ControlPlane,
) -> None:
    alice = await connect(str(control_plane.kubeconfig("alice")))

    assert await whoami(alice) == "alice"
    with pytest.raises(Forbidden, match=r'User "alice" cannot list resource "leases".*grant it'):
        await leases(alice).list()

    await alice.close()


async def test_an_invalid_object_is_rejected(client: Client, own_namespace: str) -> None:
    with pytest.raises(Rejected, match="UPPER"):
        await leases(client).create(own_namespace, {"metadata": {"name": "UPPER"}})


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
    objects = KubeObjects(client)
    about = await objects.of(NAMESPACES).get(ObjectRef("", own_namespace))
    path = "/api/v1/namespaces/default/events"
    query = {"fieldSelector": f"involvedObject.name={own_namespace}"}

    await Recorder(objects.of(EVENTS), clock=SystemClock()).tell(
        about, "TooMany", "too many shards"
    )

    (event,) = msgspec.json.decode(await client.request("GET", path, query=query))["items"]
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "TooMany",
        "too many shards",
        1,
    )
    assert event["source"]["component"] == "sharder"
    assert event["involvedObject"]["uid"] == about.metadata.uid
