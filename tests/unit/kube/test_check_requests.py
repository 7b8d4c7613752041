"""Facts about `sharder.kube.check_requests`: nothing that it sends is stored."""

from sharder.core.api.meta import Json
from sharder.core.names import ObjectRef
from sharder.kube.check_requests import (
    ring_schema,
    try_create,
    try_patch,
)
from sharder.kube.client import Client
from sharder.kube.typed_stores import LEASES, RINGS, SECRETS
from tests.unit.kube.conftest import Script

BODY: dict[str, Json] = {"metadata": {"labels": {"a": "b"}}}
OPENAPI = "/prefix/openapi/v3/apis/sharding.timebertt.dev/v1alpha1"


async def test_a_create_is_a_dry_run(script: Script, client: Client) -> None:
    script.then((201, {"kind": "Secret", **BODY}))

    obj = await try_create(client, SECRETS, "default", BODY)

    (asked,) = script.asked
    assert (asked.method, asked.query, asked.body) == ("POST", {"dryRun": "All"}, BODY)
    assert asked.path == "/prefix/api/v1/namespaces/default/secrets"
    assert obj.metadata.labels == {"a": "b"}


async def test_an_update_is_a_dry_run(script: Script, client: Client) -> None:
    script.then((200, BODY), (200, BODY))

    await try_patch(client, LEASES, ObjectRef("default", "a"), BODY)
    await try_patch(client, RINGS, ObjectRef("", "demo"), BODY)

    assert [(asked.method, asked.query) for asked in script.asked] == [
        ("PATCH", {"dryRun": "All"})
    ] * 2
    assert [asked.path for asked in script.asked] == [
        "/prefix/apis/coordination.k8s.io/v1/namespaces/default/leases/a",
        "/prefix/apis/sharding.timebertt.dev/v1alpha1/controllerrings/demo",
    ]


async def test_the_schema_of_rings_is_found_by_its_kind(script: Script, client: Client) -> None:
    group: dict[str, Json] = {"group": "sharding.timebertt.dev", "version": "v1alpha1"}
    ring: Json = {
        "properties": {"spec": {"properties": {"resources": {"items": {}}}}},
        "x-kubernetes-group-version-kind": [{**group, "kind": "ControllerRing"}],
    }
    other: Json = {"x-kubernetes-group-version-kind": [{**group, "kind": "ControllerRingList"}]}
    script.then((200, {"components": {"schemas": {"one": other, "two": ring}}}))

    schema = await ring_schema(client)

    assert script.asked[0].path == OPENAPI
    assert schema is not None
    assert [*schema.properties["spec"].properties] == ["resources"]
