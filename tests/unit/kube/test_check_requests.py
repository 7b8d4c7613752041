"""Facts about `sharder.kube.objects.ring_schema`."""

from sharder.core.api.meta import Json
from sharder.kube.client import Client
from sharder.kube.objects import ring_schema
from tests.unit.kube.conftest import Script

OPENAPI = "/prefix/openapi/v3/apis/sharding.timebertt.dev/v1alpha1"


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
