"""Facts about `sharder.kube.reviews`."""

import msgspec
import pytest

from sharder.core.api.cluster import Right, User
from sharder.core.names import GroupResource
from sharder.kube.client import Client
from sharder.kube.reviews import is_allowed, may_read_metrics
from tests.unit.kube.conftest import Script

SCRAPER = User(
    username="system:serviceaccount:monitoring:prometheus",
    uid="u-1",
    groups=("system:serviceaccounts", "system:authenticated"),
    extra={"authentication.kubernetes.io/pod-name": ("prometheus-0",)},
)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_whole_user_is_asked_about(
    script: Script, client: Client, allowed: bool
) -> None:
    user = msgspec.to_builtins(SCRAPER)
    script.then(
        (201, {"status": {"authenticated": True, "user": user}}),
        (201, {"status": {"allowed": allowed, "reason": "so it is"}}),
    )

    assert await may_read_metrics(client, "token") == (200 if allowed else 403)
    _, asked = script.asked
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


@pytest.mark.parametrize(
    ("named", "resource", "subresource"),
    [("databases", "databases", ""), ("databases/status", "databases", "status")],
)
async def test_a_subresource_is_asked_about_apart(
    script: Script, client: Client, named: str, resource: str, subresource: str
) -> None:
    script.then((201, {"status": {"allowed": True}}))

    right = Right(verb="patch", resource=GroupResource("example.com", named))
    assert await is_allowed(client, right)

    (asked,) = script.asked
    attributes = {"verb": "patch", "group": "example.com", "resource": resource}
    attributes |= {"subresource": subresource, "namespace": "", "name": ""}
    assert asked.body == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
