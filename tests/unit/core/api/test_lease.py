"""Facts about `sharder.core.api`: Leases on the wire, Secrets and selectors."""

from typing import Literal, TypeAlias

import msgspec
import pytest

from sharder.core.api.cluster import Secret
from sharder.core.api.lease import parse_time, read_lease
from sharder.core.api.meta import ObjectMeta, Requirement
from sharder.core.leases.shard import invalid_annotations
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    POOL_ANNOTATION,
    WEIGHT_ANNOTATION,
)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "soon",
        "2026-02-30T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2026-03-01T12:00:60Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_time_that_cannot_be_read_is_none(text: str | None) -> None:
    assert parse_time(text) is None


def wire(**metadata: object) -> bytes:
    """A Lease as the API server sends it."""
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "OldestEmulation"}
    return msgspec.json.encode({"metadata": {"name": "a", **metadata}, "spec": spec})


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        (POOL_ANNOTATION, 63),
        (WEIGHT_ANNOTATION, 63),
        (CORDONED_ANNOTATION, 63),
        (EVACUATE_ANNOTATION, 63),
        (CAPACITY_ANNOTATION, 1024),
    ],
)
def test_a_text_that_is_too_long_is_as_malformed_and_not_kept(key: str, limit: int) -> None:
    fits = read_lease(wire(annotations={key: "1" * limit}))
    found = read_lease(wire(annotations={key: "1" * (limit + 1)}))

    assert fits.metadata.annotation(key) == "1" * limit
    assert found.metadata.annotation(key) == f"longer than {limit} characters"
    assert len(list(invalid_annotations(found))) == 1


# Secrets


def test_a_secret_is_named_without_its_data() -> None:
    secret = Secret(
        metadata=ObjectMeta(name="tls", namespace="here"),
        type="Opaque",
        data={"tls.key": "c2VjcmV0"},
    )

    assert repr(secret) == "Secret(here/tls, type='Opaque', keys=['tls.key'])"


# Selectors


Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist"]

HAS_X, HAS_OTHER_X, HAS_NONE = {"k": "x"}, {"k": "other"}, {"unrelated": "x"}


@pytest.mark.parametrize(
    ("operator", "labels", "matches"),
    [
        ("In", HAS_X, True),
        ("In", HAS_OTHER_X, False),
        ("In", HAS_NONE, False),
        ("NotIn", HAS_X, False),
        ("NotIn", HAS_OTHER_X, True),
        ("NotIn", HAS_NONE, True),
        ("Exists", HAS_X, True),
        ("Exists", HAS_OTHER_X, True),
        ("Exists", HAS_NONE, False),
        ("DoesNotExist", HAS_X, False),
        ("DoesNotExist", HAS_OTHER_X, False),
        ("DoesNotExist", HAS_NONE, True),
    ],
)
def test_an_expression_matches_as_in_the_api_server(
    operator: Operator, labels: dict[str, str], matches: bool
) -> None:
    requirement = Requirement(key="k", operator=operator, values=("x", "y"))

    assert requirement.matches(labels) is matches
