"""Facts about `sharder.kube.discovery`."""

from sharder.core.api.meta import Json, Resource
from sharder.core.names import GroupResource
from sharder.kube.client import Client
from sharder.kube.discovery import served
from tests.unit.kube.conftest import Script

ALL = ("get", "list", "patch")


def kind(name: str, *verbs: str, scope: str = "Namespaced") -> Json:
    return {
        "resource": name,
        "responseKind": {"group": "", "version": "", "kind": name.title()},
        "scope": scope,
        "verbs": list(verbs),
        "subresources": [{"subresource": "status", "verbs": list(ALL)}],
    }


def version(name: str, *kinds: Json, freshness: str = "Current") -> Json:
    return {"version": name, "resources": list(kinds), "freshness": freshness}


def group(name: str, *versions: Json) -> Json:
    return {"metadata": {"name": name} if name else {}, "versions": list(versions)}


def groups(*items: Json) -> tuple[int, Json]:
    return 200, {"kind": "APIGroupDiscoveryList", "items": list(items)}


async def test_what_can_be_listed_and_patched_is_found(script: Script, client: Client) -> None:
    core = group(
        "", version("v1", kind("bindings", "create"), kind("nodes", *ALL, scope="Cluster"))
    )
    script.then(groups(core), groups(group("apps", version("v1", kind("deployments", *ALL)))))

    found = await served(client)

    assert found.resources == (
        Resource(id=GroupResource("", "nodes"), version="v1", kind="Nodes", namespaced=False),
        Resource(
            id=GroupResource("apps", "deployments"),
            version="v1",
            kind="Deployments",
            namespaced=True,
        ),
    )
    assert [asked.path for asked in script.asked] == ["/prefix/api", "/prefix/apis"]


async def test_a_resource_comes_once_in_the_first_version_that_serves_it(
    script: Script, client: Client
) -> None:
    versions = (version("v2", kind("a", *ALL)), version("v1", kind("a", *ALL), kind("b", *ALL)))
    script.then(groups(), groups(group("example.com", *versions)))

    found = await served(client)

    assert [(r.id.resource, r.version) for r in found.resources] == [("a", "v2"), ("b", "v1")]
