"""What is read of an AdmissionReview, and what an answer looks like."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.admission.answers import Decision
from tests.unit.webhook.reviews import request_of, review_of
from webhook.review import (
    MAX_WARNING_CHARACTERS,
    decode,
    encode,
)


def test_the_pod_of_a_bound_token_is_read_from_the_claims() -> None:
    extra = {"authentication.kubernetes.io/pod-name": ["shard-a"], "other": ["x", "y"]}

    request = decode(review_of(request_of(userInfo={"username": "bob", "extra": extra})))

    assert request.review is not None
    assert request.review.writer.pod_name == "shard-a"


def test_lists_and_maps_may_be_null() -> None:
    metadata = {"name": "w", "labels": None, "annotations": None, "ownerReferences": None}

    request = decode(review_of(request_of(object={"kind": "Widget", "metadata": metadata})))

    assert request.review is not None
    assert request.review.obj.metadata.labels is None


def test_a_warning_fits_into_a_header() -> None:
    decision = Decision(outcome="x", warning="a\r\nSet-Cookie: z\x00" + "b" * 1_000)

    [warning] = json.loads(encode("uid-1", decision))["response"]["warnings"]

    assert warning.startswith("a??Set-Cookie: z?b")
    assert len(warning) == MAX_WARNING_CHARACTERS


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
