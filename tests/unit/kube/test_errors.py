"""Facts about `sharder.kube.errors`."""

import msgspec
import pytest

from sharder.core.errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Rejected,
    Unavailable,
)
from sharder.kube.errors import Status, refusal

KINDS = {
    Unavailable: (301, 408, 429, 500, 504),
    Rejected: (400, 405, 422),
    Forbidden: (401, 403),
    NotFound: (404,),
    Conflict: (409,),
    Expired: (410,),
}


@pytest.mark.parametrize(("code", "kind"), [(c, kind) for kind in KINDS for c in KINDS[kind]])
def test_the_http_status_decides_the_type_of_error(code: int, kind: type[ApiError]) -> None:
    error = refusal(code, msgspec.json.encode(Status(message="no")), "GET /x")

    assert type(error) is kind


def test_a_path_that_is_not_served_differs_from_a_missing_object() -> None:
    missing = msgspec.json.encode(Status(message='leases "a" not found'))

    assert str(refusal(404, missing, "GET /x")) == 'GET /x: leases "a" not found [404]'
    assert "install the CRD" in str(refusal(404, b"404 page not found\n", "GET /x"))


@pytest.mark.parametrize("body", [b"", b"<html>\xff</html>", b"[1]"])
def test_a_refusal_by_something_else_than_an_api_server_is_understood(body: bytes) -> None:
    assert isinstance(refusal(502, body, "GET /x"), Unavailable)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (403, 'admission webhook "policy.example.com" denied the request: no'),
        (403, "exceeded quota: compute, requested: pods=1"),
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest"'),
        (500, "etcdserver: request is too large"),
    ],
)
def test_a_policy_is_no_missing_right_and_an_object_too_large_for_etcd_no_fault_of_the_server(
    code: int, message: str
) -> None:
    error = refusal(code, msgspec.json.encode(Status(message=message)), "PATCH /x")

    assert type(error) is Rejected
    assert str(error) == f"PATCH /x: {message} [{code}]"
