"""What an API server in memory serves: aggregated and legacy discovery."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from sharder.core.api.meta import Json, Resource
from sharder.sdk.testing.requests import Call, NotServed

_VERBS: list[Json] = ["create", "delete", "get", "list", "patch", "update", "watch"]


def answer_of_discovery(call: Call, resources: Sequence[Resource]) -> bytes | None:
    """Return the answer to a request for discovery, None if it is another request.

    Raises:
        Refused: the group or version is not served.
    """
    root, *parts = call.path.strip("/").split("/")
    if root == "version":
        return b'{"gitVersion":"v1.36.0","major":"1","minor":"36"}'
    if root not in {"api", "apis"} or len(parts) > (1 if root == "api" else 2):
        return None
    if not parts and "apidiscovery" in call.accept:
        core = root == "api"
        return _encoded(_aggregated([each for each in resources if (not each.id.group) is core]))
    group = "" if root == "api" else (parts[0] if parts else "")
    served = [each for each in resources if each.id.group == group]
    if root == "apis" and len(parts) == 1:
        if not served:
            raise NotServed
        versions: list[Json] = [{"version": each} for each in _versions(served)]
        return _encoded(
            {"kind": "APIGroup", "versions": versions, "preferredVersion": versions[0]}
        )
    version = parts[-1] if parts else ""
    listed = [each for each in served if each.version == version]
    if not listed:
        raise NotServed
    return _encoded({"kind": "APIResourceList", "resources": [_legacy(each) for each in listed]})


def _aggregated(resources: Sequence[Resource]) -> Json:
    def group_of(resource: Resource) -> str:
        return resource.id.group

    items: list[Json] = []
    for group, found in groupby(sorted(resources, key=group_of), key=group_of):
        served = list(found)
        versions: list[Json] = [
            {
                "version": version,
                "resources": [_modern(each) for each in served if each.version == version],
                "freshness": "Current",
            }
            for version in _versions(served)
        ]
        items.append({"metadata": {"name": group}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "items": items}


def _versions(resources: Sequence[Resource]) -> list[str]:
    """Return the versions, the latest first: it is the preferred one."""
    return list(dict.fromkeys(each.version for each in reversed(resources)))


def _modern(resource: Resource) -> Json:
    return {
        "resource": resource.id.resource,
        "responseKind": {"kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular or resource.kind.lower(),
        "shortNames": list(resource.short_names),
        "verbs": _VERBS,
    }


def _legacy(resource: Resource) -> Json:
    return {
        "name": resource.id.resource,
        "kind": resource.kind,
        "namespaced": resource.namespaced,
        "singularName": resource.singular or resource.kind.lower(),
        "shortNames": list(resource.short_names),
        "verbs": _VERBS,
    }


def _encoded(value: Json) -> bytes:
    return msgspec.json.encode(value)
