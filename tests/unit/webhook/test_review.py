"""What is read of an AdmissionReview, and what an answer looks like."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.admission.answers import Decision
from sharder.core.errors import InvalidObject
from sharder.core.movement.patches import Operation
from sharder.core.names import GroupResource
from tests.support.values import SECRETS, obj
from tests.unit.webhook.reviews import request_of, review_of
from webhook.review import (
    MAX_WARNING_CHARACTERS,
    Request,
    decode,
    encode,
    printable,
)

DEEP = '{"a":' * 20_000 + "1" + "}" * 20_000
"""Deeper than the decoder of any Python takes."""


def test_a_create_shows_the_object_and_its_resource() -> None:
    request = decode(review_of(request_of(obj(SECRETS, "s"), resource=SECRETS)))

    assert request.review is not None
    assert request.review.operation == "CREATE"
    assert request.review.resource == GroupResource("", "secrets")
    assert request.review.obj == obj(SECRETS, "s")
    assert request.review.old is None


def test_an_update_shows_the_old_object_too() -> None:
    request = decode(review_of(request_of(obj(name="w"), old=obj(name="w", owner="shard-a"))))

    assert request.review is not None
    assert request.review.operation == "UPDATE"
    assert request.review.old == obj(name="w", owner="shard-a")


def test_the_writer_is_the_user() -> None:
    request = decode(review_of(request_of(userInfo={"username": "bob"})))

    assert request.review is not None
    assert request.review.writer.username == "bob"
    assert request.review.writer.pod_name == ""


def test_the_pod_of_a_bound_token_is_read_from_the_claims() -> None:
    extra = {"authentication.kubernetes.io/pod-name": ["shard-a"], "other": ["x", "y"]}

    request = decode(review_of(request_of(userInfo={"username": "bob", "extra": extra})))

    assert request.review is not None
    assert request.review.writer.pod_name == "shard-a"


@pytest.mark.parametrize("names", [None, []])
def test_a_claim_without_values_is_none(names: list[str] | None) -> None:
    extra = {"authentication.kubernetes.io/pod-name": names}

    request = decode(review_of(request_of(userInfo={"username": "bob", "extra": extra})))

    assert request.review is not None
    assert request.review.writer.pod_name == ""


def test_lists_and_maps_may_be_null() -> None:
    metadata = {"name": "w", "labels": None, "annotations": None, "ownerReferences": None}

    request = decode(review_of(request_of(object={"kind": "Widget", "metadata": metadata})))

    assert request.review is not None
    assert request.review.obj.metadata.labels is None


@pytest.mark.parametrize(("sent", "read"), [(True, True), (False, False), (None, False)])
def test_a_dry_run_is_recognised(sent: bool | None, read: bool) -> None:
    request = decode(review_of(request_of(dryRun=sent)))

    assert request.dry_run is read


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_other_operations_ask_for_nothing(operation: str) -> None:
    request = decode(review_of(request_of(operation=operation, object=None)))

    assert request == Request(uid="uid-1")


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": ["a"]},
        {"labels": {"a": 1}},
        {"name": None},
        {"ownerReferences": {}},
        {"generation": "x"},
        None,
        [],
    ],
)
def test_metadata_that_cannot_be_read_is_a_problem_of_a_request_that_can_be_answered(
    metadata: list[str] | dict[str, str] | None,
) -> None:
    request = decode(review_of(request_of(object={"metadata": metadata})))

    assert request.uid == "uid-1"
    assert request.review is None
    assert "metadata" in request.problem


def test_a_create_without_object_is_a_problem() -> None:
    request = decode(review_of(request_of(object=None)))

    assert request == Request(uid="uid-1", problem="it has no object")


def test_what_a_decoder_does_not_reach_is_for_a_sieve() -> None:
    body = f'{{"request":{{"uid":"uid-1","object":{{"spec":{DEEP}}}}}}}'

    with pytest.raises(RecursionError):
        decode(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"request":null}',
        b'{"request":{}}',
        b'{"request":{"uid":""}}',
        b'{"request":{"uid":"","object":[]}}',
        b'{"request":{"uid":7}}',
        b'{"request":{"uid":null}}',
        b'{"request":{"uid":"u"}',
        b'{"request":{"uid":"\xff"}}',
        b'{"request":{"uid":"u"}} x',
        b'{"request":{"uid":"u","object":{"spec":"\\ud800"}}}',
        b'{"request":{"uid":"u","object":{"metadata":{"labels":[]}}}} x',
    ],
)
def test_what_has_no_uid_cannot_be_answered(body: bytes) -> None:
    with pytest.raises(InvalidObject):
        decode(body)


def test_an_answer_without_change_only_allows() -> None:
    answer = json.loads(encode("uid-1", Decision(outcome="unchanged")))

    assert answer == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "response": {"uid": "uid-1", "allowed": True},
    }


def test_a_warning_changes_nothing() -> None:
    answer = json.loads(encode("uid-1", Decision(outcome="x", warning="no such ring")))

    assert answer["response"] == {
        "uid": "uid-1",
        "allowed": True,
        "warnings": ["no such ring"],
    }


def test_a_warning_fits_into_a_header() -> None:
    decision = Decision(outcome="x", warning="a\r\nSet-Cookie: z\x00" + "b" * 1_000)

    [warning] = json.loads(encode("uid-1", decision))["response"]["warnings"]

    assert warning.startswith("a??Set-Cookie: z?b")
    assert len(warning) == MAX_WARNING_CHARACTERS


paths = st.text().map(lambda text: "/metadata/labels/" + text)
operations = st.lists(
    st.builds(
        Operation,
        op=st.sampled_from(["add", "remove"]),
        path=paths,
        value=st.none() | st.text() | st.dictionaries(st.text(), st.text()),
    ),
    min_size=1,
).map(tuple)


@given(uid=st.text(min_size=1), changes=operations)
def test_an_answer_carries_uid_and_patch_unchanged(
    uid: str, changes: tuple[Operation, ...]
) -> None:
    response = json.loads(encode(uid, Decision(outcome="x", operations=changes)))["response"]

    patch = json.loads(base64.b64decode(response["patch"], validate=True))
    assert response["uid"] == uid
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert [(o["op"], o["path"], o.get("value")) for o in patch] == [
        (o.op, o.path, o.value) for o in changes
    ]


@given(
    uid=st.text(min_size=1),
    labels=st.none() | st.dictionaries(st.text(), st.text()),
    username=st.text(),
    name=st.text(),
)
def test_what_is_decoded_is_what_was_sent(
    uid: str, labels: dict[str, str] | None, username: str, name: str
) -> None:
    sent = request_of(
        uid=uid,
        userInfo={"username": username},
        object={"metadata": {"name": name, "labels": labels}},
    )

    request = decode(review_of(sent))

    assert request.uid == uid
    assert request.review is not None
    assert request.review.obj.metadata.name == name
    assert request.review.obj.metadata.labels == labels
    assert request.review.writer.username == username


def test_a_warning_that_is_cut_says_so() -> None:
    long, short = "w" * (MAX_WARNING_CHARACTERS + 1), "w" * MAX_WARNING_CHARACTERS

    assert printable(long) == "w" * (MAX_WARNING_CHARACTERS - 3) + "..."
    assert printable(short) == short
