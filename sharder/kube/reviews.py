"""Reviews by the API server: the user of a token, a user's rights, and whether a fence works."""

from typing import Final

import msgspec

from sharder.core.api.cluster import User
from sharder.core.api.meta import Json
from sharder.core.errors import Rejected
from sharder.core.fence.policy import PROBE_MANAGER
from sharder.core.fence.probe import NoFence, Proof, proof_of
from sharder.core.names import API_GROUP, API_VERSION, METRICS_PATH, GroupResource, RingName
from sharder.kube.client import MERGE_PATCH, Client
from sharder.kube.errors import understand

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OWN_ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus


class _SelfStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: User = User()


class _SelfReview(msgspec.Struct, frozen=True):
    status: _SelfStatus = _SelfStatus()


class KubeReviews:
    """Creates reviews, which change nothing and are not stored."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def identify(self, token: str) -> User | None:
        """Return the user of a bearer token, None if the API server does not accept it."""
        body: Json = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        answer = await self._client.request("POST", _TOKENS, body=body)
        status = understand(answer, _TokenReview, _TOKENS).status
        return status.user if status.authenticated and status.user.username else None

    async def may_read_metrics(self, user: User) -> bool:
        """Return whether the user is allowed to get the metrics, a nonResourceURL."""
        metrics: Json = {"verb": "get", "path": METRICS_PATH}
        return await _review(self._client, user, {"nonResourceAttributes": metrics})


async def is_allowed(
    client: Client,
    verb: str,
    resource: GroupResource,
    *,
    namespace: str = "",
    name: str = "",
    user: User | None = None,
) -> bool:
    """Return whether a user has a right, by default this client.

    An empty namespace or name means all.  A subresource is named as in a Role: `databases/status`.
    """
    main, _, subresource = resource.resource.partition("/")
    attributes: Json = {
        "verb": verb,
        "group": resource.group,
        "resource": main,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    return await _review(client, user, {"resourceAttributes": attributes})


async def _review(client: Client, user: User | None, spec: dict[str, Json]) -> bool:
    path, kind = _OWN_ACCESS, "SelfSubjectAccessReview"
    if user is not None:
        path, kind = _ACCESS, "SubjectAccessReview"
        spec |= {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        }
    body: Json = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await client.request("POST", path, body=body)
    return understand(answer, _AccessReview, path).status.allowed


async def whoami(client: Client) -> str:
    """Return the user name of this client according to the API server."""
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.request("POST", _SELF, body=body)
    return understand(answer, _SelfReview, _SELF).status.user_info.username


class KubeFences:
    """The fences of the cluster's rings."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def prove(self, ring: RingName) -> Proof:
        """Return the proof from a dry run of an empty patch of the ring's status.

        Raises:
            ApiError: there was no answer, or the right to patch the status is missing.
        """
        path = f"/apis/{API_GROUP}/{API_VERSION}/controllerrings/{ring}/status"
        query = {"dryRun": "All", "fieldManager": PROBE_MANAGER}
        try:
            await self._client.request(
                "PATCH", path, query=query, body={}, content_type=MERGE_PATCH
            )
        except Rejected as error:
            return proof_of(str(error), ring)
        return NoFence()
