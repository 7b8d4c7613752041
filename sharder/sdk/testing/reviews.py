"""Reviews by an API server in memory: who a client is, and what it has the right to do."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from sharder.core.api.meta import Json
from sharder.core.names import GroupResource
from sharder.sdk.testing.requests import Call, Client

Allows: TypeAlias = Callable[[Client, str, GroupResource, str], bool]
"""Called with client, verb, resource and namespace (empty: all namespaces)."""


def everything(_client: Client, _verb: str, _resource: GroupResource, _namespace: str) -> bool:
    """Allow everything."""
    return True


def answer_of_review(call: Call, allows: Allows) -> bytes | None:
    """Return the answer to a review, None if the request is none."""
    if call.method != "POST" or not call.path.endswith("reviews"):
        return None
    match call.path.rpartition("/")[2]:
        case "selfsubjectreviews":
            user: Json = {"username": call.client.username, "extra": dict(call.client.extra)}
            return msgspec.json.encode({"status": {"userInfo": user}})
        case "selfsubjectaccessreviews":
            return _access(_has_right(call.body, call.client, allows))
        case "subjectaccessreviews":
            of = Client(username=str(_in(call.body, "spec", "user")))
            return _access(_has_right(call.body, of, allows))
        case "tokenreviews":
            return msgspec.json.encode({"status": {"authenticated": False}})
        case _:
            return None


def _access(allowed: bool) -> bytes:  # noqa: FBT001 - the answer has this one flag
    return msgspec.json.encode({"status": {"allowed": allowed}})


def _has_right(body: Json, client: Client, allows: Allows) -> bool:
    asked = _in(body, "spec", "resourceAttributes")
    if not isinstance(asked, Mapping):
        return True
    part = str(asked.get("subresource") or "")
    name = str(asked.get("resource")) + (f"/{part}" if part else "")
    resource = GroupResource(str(asked.get("group") or ""), name)
    return allows(client, str(asked.get("verb")), resource, str(asked.get("namespace") or ""))


def _in(body: Json, *keys: str) -> Json:
    for key in keys:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body
