"""Facts about `sharder.kube.errors`."""

import json

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


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (301, Unavailable),
        (400, Rejected),
        (401, Forbidden),
        (403, Forbidden),
        (404, NotFound),
        (405, Rejected),
        (408, Unavailable),
        (409, Conflict),
        (410, Expired),
        (422, Rejected),
        (429, Unavailable),
        (500, Unavailable),
        (504, Unavailable),
    ],
)
def test_the_http_status_decides_the_type_of_error(code: int, kind: type[ApiError]) -> None:
    error = refusal(code, msgspec.json.encode(Status(message="no")), "GET /x")

    assert type(error) is kind


def test_an_object_that_is_too_large_for_etcd_is_no_fault_of_the_server() -> None:
    body = msgspec.json.encode(Status(message="etcdserver: request is too large"))

    assert isinstance(refusal(500, body, "PATCH /x"), Rejected)


def test_a_path_that_is_not_served_differs_from_a_missing_object() -> None:
    missing = msgspec.json.encode(Status(message='leases "a" not found'))

    assert str(refusal(404, missing, "GET /x")) == 'GET /x: leases "a" not found [404]'
    assert "install the CRD" in str(refusal(404, b"404 page not found\n", "GET /x"))


@pytest.mark.parametrize("body", [b"", b"<html>\xff</html>", b"[1]"])
def test_a_refusal_by_something_else_than_an_api_server_is_understood(body: bytes) -> None:
    assert isinstance(refusal(502, body, "GET /x"), Unavailable)


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "policy.example.com" denied the request: no',
        "exceeded quota: compute, requested: pods=1",
        'pods "p" is forbidden: violates PodSecurity "restricted:latest"',
    ],
)
def test_a_policy_that_answers_403_is_no_missing_right(message: str) -> None:
    error = refusal(403, f'{{"message": {json.dumps(message)}}}'.encode(), "PATCH /x")

    assert type(error) is Rejected
    assert str(error) == f"PATCH /x: {message} [403]"
