"""Facts about `sharder.kube.objects`."""

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import SECRETS
from tests.unit.kube.conftest import Script

WIDGETS = GroupResource("example.com", "widgets")
GROUP: Json = {
    "versions": [{"version": "v1"}, {"version": "v2"}],
    "preferredVersion": {"version": "v2"},
}


def serving(*names: str) -> tuple[int, Json]:
    resources: list[Json] = [
        {"name": name, "kind": "Widget", "namespaced": True} for name in names
    ]
    return 200, {"resources": resources}


async def test_the_preferred_version_is_looked_up_until_it_is_installed_and_once_then(
    script: Script, client: Client
) -> None:
    script.then((404, {}), (200, GROUP), serving("widgets/status", "widgets"))
    objects = KubeObjects(client)

    with pytest.raises(NotFound, match=r"widgets\.example\.com: .*correct its name or group"):
        await objects.find(WIDGETS)
    first, again = [await objects.find(WIDGETS) for _ in range(2)]

    assert (first.version, first.kind) == ("v2", "Widget")
    assert first == again
    assert len(script.asked) == 3


async def test_a_resource_can_have_any_name(script: Script, client: Client) -> None:
    script.then((404, {}))

    with pytest.raises(NotFound):  # the annotation of a Lease can say it
        await KubeObjects(client).find(GroupResource("a/..\x01", "x"))
    assert script.asked[0].path.endswith("/apis/a%2F..%01")


async def test_a_dry_run_stores_nothing(script: Script, client: Client) -> None:
    body: Json = {"metadata": {"labels": {"a": "b"}}}
    script.then((200, body))
    store = KubeObjects(client).of(SECRETS).dry_run()

    tried = [await store.create("default", body), await store.patch(ObjectRef("x", "s"), body)]

    assert [obj.metadata.labels for obj in tried] == [{"a": "b"}] * 2
    assert [(asked.method, asked.query["dryRun"]) for asked in script.asked] == [
        ("POST", "All"),
        ("PATCH", "All"),
    ]


@pytest.mark.parametrize(("left", "seconds"), [(3.25, "3.250s"), (60, "10.000s"), (-1, "10.000s")])
async def test_the_server_gives_up_a_write_when_its_sender_does(
    left: float, seconds: str, script: Script, client: Client
) -> None:
    script.then((200, {"metadata": {}}))
    client.left = lambda: left
    store, ref = KubeObjects(client).of(SECRETS), ObjectRef("x", "s")

    await store.get(ref)
    await store.create("x", {})
    await store.patch(ref, {})
    await store.delete(ref, uid="u", resource_version="1")

    assert [asked.query.get("timeout") for asked in script.asked] == [None, *[seconds] * 3]
