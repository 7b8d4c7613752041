"""What the proxy understands of requests: their target, their selectors, the object they send."""

import json

import pytest

from sharder.core.api.meta import OwnerReference
from sharder.core.errors import InvalidObject
from sharder.core.names import GroupResource, ObjectRef
from sharder.proxy.bodies import PROTOBUF, deletion_of, labelled, owner_in
from sharder.proxy.targets import Target, Verb, as_json, target_of
from tests.unit.proxy.conftest import JOBS, PODS

ONE = ObjectRef("demo", "one")


@pytest.mark.parametrize(
    ("method", "path", "query", "target"),
    [
        ("GET", "/apis/batch/v1/jobs", {}, (Verb.LIST, JOBS, ObjectRef("", ""))),
        ("GET", "/apis/batch/v1/jobs", {"watch": "true"}, (Verb.WATCH, JOBS, ObjectRef("", ""))),
        ("GET", "/apis/batch/v1/jobs", {"watch": "1"}, (Verb.WATCH, JOBS, ObjectRef("", ""))),
        ("GET", "/apis/batch/v1/jobs", {"watch": "True"}, (Verb.WATCH, JOBS, ObjectRef("", ""))),
        ("GET", "/apis/batch/v1/jobs", {"watch": "False"}, (Verb.LIST, JOBS, ObjectRef("", ""))),
        ("GET", "/apis/batch/v1/watch/jobs", {}, (Verb.WATCH, JOBS, ObjectRef("", ""))),
        ("GET", "/apis/batch/v1/namespaces/demo/jobs/one", {}, (Verb.GET, JOBS, ONE)),
        ("PUT", "/apis/batch/v1/namespaces/demo/jobs/one/status", {}, (Verb.PUT, JOBS, ONE)),
        ("PUT", "/apis/batch/v1/namespaces/demo%2Fjobs%2fon%65", {}, (Verb.PUT, JOBS, ONE)),
        ("POST", "/api/v1/namespaces/demo/pods", {}, (Verb.CREATE, PODS, ObjectRef("demo", ""))),
        ("POST", "/api/v1/namespaces/demo/pods/one/eviction", {}, (Verb.WRITE, PODS, ONE)),
        ("DELETE", "/api/v1/namespaces/demo/pods/one", {}, (Verb.WRITE, PODS, ONE)),
        (
            "DELETE",
            "/api/v1/namespaces/demo/pods",
            {},
            (Verb.DELETE_COLLECTION, PODS, ObjectRef("demo", "")),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/demo/status",
            {},
            (Verb.WRITE, GroupResource("", "namespaces"), ObjectRef("", "demo")),
        ),
    ],
)
def test_a_request_is_about_these_objects(
    method: str, path: str, query: dict[str, str], target: tuple[Verb, GroupResource, ObjectRef]
) -> None:
    assert target_of(method, path, query) == Target(*target)


@pytest.mark.parametrize("path", ["/version", "/healthz", "/apis", "/api/v1", "/apis/batch/v1"])
def test_other_requests_are_about_no_objects(path: str) -> None:
    assert target_of("GET", path, {}) is None


@pytest.mark.parametrize(
    ("accept", "asked"),
    [
        ("", "application/json"),
        (f"{PROTOBUF},application/json", "application/json"),
        (
            f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/json"),
    ],
)
def test_what_is_read_is_asked_for_as_json(accept: str, asked: str) -> None:
    assert as_json(accept) == asked


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


OWNER = (
    field(1, b"Job") + field(3, b"one") + field(4, b"uid-1") + field(5, b"batch/v1") + b"\x30\x01"
)
META = field(1, b"one-x") + field(3, b"demo") + b"\x38\x96\x01" + field(13, OWNER)
POD = b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, field(1, META))
ONE_OF_JOBS = OwnerReference(
    api_version="batch/v1", kind="Job", name="one", uid="uid-1", controller=True
)


def test_the_owner_of_an_object_is_read_from_protobuf() -> None:
    assert owner_in(POD, PROTOBUF) == ONE_OF_JOBS
    assert owner_in(POD + b"\x08\x01" * 50_000, PROTOBUF) == ONE_OF_JOBS


def test_what_comes_in_parts_in_protobuf_is_put_together() -> None:
    parts = field(1, META[:7]) + field(2, b"spec") + field(1, META[7:])
    message = b"k8s\x00" + field(2, b"of before") + field(2, parts)

    assert owner_in(message, PROTOBUF) == ONE_OF_JOBS
    more = labelled(message, PROTOBUF, "shard", "me")
    assert owner_in(more, PROTOBUF) == ONE_OF_JOBS


@pytest.mark.parametrize(
    "kind",
    ["json; charset=utf-8", "apply-patch+yaml", "merge-patch+json", "strategic-merge-patch+json"],
)
def test_the_owner_of_an_object_is_read_from_json(kind: str) -> None:
    owners = '"ownerReferences": [{"uid": "u", "controller": true}]'
    body = f'{{"metadata": {{"labels": {{"a": null}}, {owners}}}}}'.encode()

    assert owner_in(body, f"application/{kind}") == OwnerReference(uid="u", controller=True)
    for nobody in (
        "{}",
        '{"metadata": null}',
        '{"metadata": {"ownerReferences": [{"uid": "u"}]}}',
    ):
        assert owner_in(nobody.encode(), f"application/{kind}") is None


def test_a_label_more_changes_nothing_else() -> None:
    body = b'{"spec": {"x": 1.50}, "metadata": {"name": "a", "labels": {"b": "c"}}}'

    assert json.loads(labelled(body, "application/json", "shard", "me")) == {
        "spec": {"x": 1.5},
        "metadata": {"name": "a", "labels": {"b": "c", "shard": "me"}},
    }
    assert b"1.50" in labelled(body, "application/json", "shard", "me")

    long = "x" * 200
    message = labelled(labelled(POD, PROTOBUF, "shard", "me"), PROTOBUF, long, long)
    assert owner_in(message, PROTOBUF) == ONE_OF_JOBS
    assert field(11, field(1, b"shard") + field(2, b"me")) in message
    assert message.count(long.encode()) == 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (POD[:-1], PROTOBUF),
        (POD[4:], PROTOBUF),
        (b"k8s\x00\x12\xff", PROTOBUF),
        (b"k8s\x00\x13", PROTOBUF),
        (POD + b"\x19short", PROTOBUF),
        (b"{", "application/json"),
        (b'{"metadata":' * 5000, "application/json"),
        (b"\xa0", "application/cbor"),
    ],
)
def test_what_cannot_be_read_is_an_error(body: bytes, kind: str) -> None:
    with pytest.raises(InvalidObject):
        owner_in(body, kind)


def test_a_deletion_is_for_one_object_only() -> None:
    options = {"propagationPolicy": "Orphan", "preconditions": {"resourceVersion": "5"}}
    body, kind = deletion_of("u1", json.dumps(options).encode(), "application/json", {})
    assert kind == "application/json"
    assert json.loads(body) == {**options, "preconditions": {"resourceVersion": "5", "uid": "u1"}}

    given = b"\x08\x05" + field(2, field(2, b"5"))
    message = b"k8s\x00" + field(2, given)
    sent = message + field(2, field(2, field(1, b"u1")) + given)  # the last object counts
    assert deletion_of("u1", message, PROTOBUF, {}) == (sent, PROTOBUF)


def test_a_deletion_of_another_object_stays_one() -> None:
    for given, uid in (("u2", "u2"), (None, "u1")):
        sent = json.dumps({"preconditions": {"uid": given}}).encode()
        body, _ = deletion_of("u1", sent, "", {})
        assert json.loads(body) == {"preconditions": {"uid": uid}}


@pytest.mark.parametrize(
    ("body", "kind", "query"),
    [
        (b"{", "", {}),
        (b"[]", "", {}),
        (b'{"preconditions": "x"}', "", {}),
        (b"k8s", PROTOBUF, {}),
        (b"", "", {"gracePeriodSeconds": "soon"}),
    ],
)
def test_a_deletion_that_cannot_be_read_is_an_error(
    body: bytes, kind: str, query: dict[str, str]
) -> None:
    with pytest.raises(InvalidObject):
        deletion_of("u1", body, kind, query)
