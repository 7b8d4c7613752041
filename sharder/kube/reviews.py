"""Reviews by the API server: the user of a token, and a user's rights."""

from http import HTTPStatus
from typing import Final

import msgspec

from sharder.core.api.cluster import Right, User
from sharder.core.api.meta import Json
from sharder.core.names import METRICS_PATH, ObjectRef
from sharder.kube.client import Client
from sharder.kube.errors import decode_as

_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a review; each kind has some of the fields."""

    authenticated: bool = False
    user: User = User()
    user_info: User = User()
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status


async def may_read_metrics(client: Client, token: str) -> HTTPStatus:
    """Return OK if the user of a bearer token is allowed to get the metrics, a nonResourceURL.

    UNAUTHORIZED: the API server does not accept the token.  FORBIDDEN: the right is missing.
    """
    status = await _review(client, _AUTHENTICATION, "TokenReview", {"token": token})
    if not (status.authenticated and status.user.username):
        return HTTPStatus.UNAUTHORIZED
    metrics: Json = {"verb": "get", "path": METRICS_PATH}
    is_allowed = await _may(client, status.user, {"nonResourceAttributes": metrics})
    return HTTPStatus.OK if is_allowed else HTTPStatus.FORBIDDEN


async def is_allowed(client: Client, right: Right, account: ObjectRef | None = None) -> bool:
    """Return whether a ServiceAccount, by default the user of this client, has a right."""
    main, _, subresource = right.resource.resource.partition("/")
    attributes: Json = {
        "verb": right.verb,
        "group": right.resource.group,
        "resource": main,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    user = None if account is None else _user_of(account)
    return await _may(client, user, {"resourceAttributes": attributes})


def _user_of(account: ObjectRef) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}")
    name = f"system:serviceaccount:{account.namespace}:{account.name}"
    return User(username=name, groups=(*groups, "system:authenticated"))


async def whoami(client: Client) -> str:
    """Return the user name of this client according to the API server."""
    status = await _review(client, _AUTHENTICATION, "SelfSubjectReview")
    return status.user_info.username


async def _may(client: Client, user: User | None, spec: dict[str, Json]) -> bool:
    """Return whether a user has a right, by default this client."""
    if user is not None:
        spec |= {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        }
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    return (await _review(client, _AUTHORIZATION, kind, spec)).allowed


async def _review(client: Client, group: str, kind: str, spec: Json = None) -> _Status:
    path = f"/apis/{group}/v1/{kind.lower()}s"
    body: Json = {"apiVersion": f"{group}/v1", "kind": kind, **({"spec": spec} if spec else {})}
    return decode_as(await client.request("POST", path, body=body), _Review, path).status
