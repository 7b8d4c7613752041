"""Facts about `sharder.kube.reviews`."""

import pytest

from sharder.core.api.cluster import User
from sharder.core.api.meta import Json
from sharder.core.errors import Unavailable
from sharder.core.names import GroupResource
from sharder.kube.client import Client
from sharder.kube.reviews import KubeReviews, is_allowed
from tests.unit.kube.conftest import Script

SCRAPER = User(
    username="system:serviceaccount:monitoring:prometheus",
    uid="u-1",
    groups=("system:serviceaccounts", "system:authenticated"),
    extra={"authentication.kubernetes.io/pod-name": ("prometheus-0",)},
)
AS_SENT: Json = {
    "username": SCRAPER.username,
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}


async def test_a_token_is_reviewed_and_its_owner_returned(script: Script, client: Client) -> None:
    script.then((201, {"status": {"authenticated": True, "user": AS_SENT}}))

    user = await KubeReviews(client).identify("a-token")

    assert user == SCRAPER
    (asked,) = script.asked
    assert (asked.method, asked.path) == (
        "POST",
        "/prefix/apis/authentication.k8s.io/v1/tokenreviews",
    )
    assert asked.body == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "a-token"},
    }


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "error": "invalid bearer token"},
        {"user": {}},
        {"user": {"username": "left-over"}},
        {"authenticated": True, "user": {"username": ""}},
    ],
    ids=str,
)
async def test_a_token_that_is_not_accepted_has_no_user(
    script: Script, client: Client, status: Json
) -> None:
    script.then((201, {"status": status}))

    assert await KubeReviews(client).identify("a-token") is None


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_whole_user_is_asked_about(
    script: Script, client: Client, allowed: bool
) -> None:
    script.then((201, {"status": {"allowed": allowed, "reason": "so it is"}}))

    assert await KubeReviews(client).may_read_metrics(SCRAPER) is allowed
    (asked,) = script.asked
    assert asked.path == "/prefix/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert asked.body == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": SCRAPER.username,
            "uid": "u-1",
            "groups": list(SCRAPER.groups),
            "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
            "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
        },
    }


@pytest.mark.parametrize("answer", [{}, {"status": {}}, {"status": {"allowed": "yes"}}], ids=str)
async def test_an_invalid_answer_allows_nothing(
    script: Script, client: Client, answer: Json
) -> None:
    script.then((201, answer))

    with pytest.raises(Unavailable):
        await KubeReviews(client).may_read_metrics(SCRAPER)


@pytest.mark.parametrize(
    ("named", "resource", "subresource"),
    [("databases", "databases", ""), ("databases/status", "databases", "status")],
)
async def test_a_subresource_is_asked_about_apart(
    script: Script, client: Client, named: str, resource: str, subresource: str
) -> None:
    script.then((201, {"status": {"allowed": True}}))

    assert await is_allowed(client, "patch", GroupResource("example.com", named))

    (asked,) = script.asked
    assert asked.body == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": "patch",
                "group": "example.com",
                "resource": resource,
                "subresource": subresource,
                "namespace": "",
                "name": "",
            }
        },
    }
