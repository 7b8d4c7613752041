"""Facts about `sharder.core.admission.decide`: objects that are created."""

import dataclasses

import pytest
from msgspec import structs

from sharder.core.admission.acknowledgement import Writer
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.leases.membership import Standing
from sharder.core.leases.validity import classify
from sharder.core.names import SHARDER_IDENTITY, GroupResource, ShardName
from tests.support.admissions import (
    NAMESAKE,
    OTHER_POD,
    OWNERS_ACCOUNT,
    OWNERS_POD,
    PERSON,
    RING,
    SECRET_TO_B,
    STRANGE_ACCOUNT,
    create,
    stored,
    withheld,
)
from tests.support.values import (
    CONFIGMAPS,
    DRAIN,
    NEXT,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    lease,
    members,
    named,
    obj,
    snapshot,
)

# (e) main objects are created


@pytest.mark.parametrize("of", [WIDGETS, SECRETS])
@pytest.mark.parametrize(
    "labels", [None, {}, {"x": "1"}, {OWNER: A}, {OWNER: A, DRAIN: "true"}, {OWNER: "bad value!"}]
)
def test_a_new_object_gets_the_owner_that_its_key_hashes_to(
    of: GroupResource, labels: dict[str, str] | None
) -> None:
    named_new = obj(of, named(of, B, RING), annotations={NEXT: A})
    new = replace_labels(named_new, labels)

    decision = create(new, of=of, writer=OWNERS_POD)

    other = {key: value for key, value in (labels or {}).items() if key == "x"}
    assert decision.assigned == B
    assert stored(new, decision).labels == {**other, OWNER: B}
    assert stored(new, decision).annotations == {}


def test_a_request_that_is_called_twice_gets_the_same_name() -> None:
    new = unnamed(None, generate_name="w-")

    assert create(new) == create(new)


def test_an_object_without_any_name_passes_without_owner() -> None:
    new = unnamed({OWNER: A})

    decision = create(new)

    assert decision.outcome == "unnamed"
    assert "neither name nor generateName" in decision.warning
    assert not stored(new, decision).labels


def unnamed(labels: dict[str, str] | None, *, generate_name: str = "") -> PartialObject:
    meta = ObjectMeta(generate_name=generate_name, namespace="default", labels=labels)
    return PartialObject(api_version="v1", kind="Widget", metadata=meta)


# (f) controlled objects are created


CREATED = {
    "the owner stays that its pod names": (A, OWNERS_POD, A),
    "the owner stays that an account of its namespace names": (A, OWNERS_ACCOUNT, A),
    "the owner stays that a person names": (A, PERSON, A),
    "another pod names no shard but itself": (A, OTHER_POD, B),
    "an account of another namespace names no shard": (A, STRANGE_ACCOUNT, B),
    "a pod of another namespace names no shard, not even of its own name": (A, NAMESAKE, B),
    "a pod of another namespace is no shard": (None, NAMESAKE, B),
    "another owner yields to the creator's pod": (C, OWNERS_POD, A),
    "the creator's pod": (None, OWNERS_POD, A),
    "the creator's pod, another one": (None, OTHER_POD, B),
    "a pod that is no shard yields to the owner's key": (
        None,
        Writer(username="x", pod_name=C),
        B,
    ),
    "the owner's key": (None, PERSON, B),
    "an unavailable owner yields to the owner's key": (C, PERSON, B),
    "an empty owner yields to the owner's key": ("", PERSON, B),
    "an invalid owner yields to the owner's key": ("no such shard", PERSON, B),
}
"""Which owner is asked for, by whom, and who becomes it."""


@pytest.mark.parametrize("case", CREATED)
def test_a_new_controlled_object_belongs_where_its_creator_is(case: str) -> None:
    asked, writer, owner = CREATED[case]
    new = obj(CONFIGMAPS, owner=asked, drain="true", controlled_by=SECRET_TO_B)

    decision = create(new, of=CONFIGMAPS, writer=writer)

    assert stored(new, decision).labels == {OWNER: owner}


@pytest.mark.parametrize(("holder", "owner"), [(None, C), (SHARDER_IDENTITY, B)])
def test_a_new_controlled_object_stays_with_a_shard_that_is_back_unseen(
    holder: str | None, owner: ShardName
) -> None:
    """A shard that was taken over writes late; one that had released its Lease has a new one."""
    seen = classify([lease(A), lease(B), lease(C, holder=holder)], ())
    gone = members(dict.fromkeys((A, B), Standing.AVAILABLE) | {C: Standing.GONE})
    by = snapshot(dataclasses.replace(gone, validity=seen))
    new = obj(CONFIGMAPS, owner=C, controlled_by=SECRET_TO_B)
    writer = structs.replace(OWNERS_POD, pod_name=C)

    assert stored(new, create(new, of=CONFIGMAPS, writer=writer, by=by)).labels == {OWNER: owner}


def test_a_stale_webhook_leaves_a_new_controlled_object_to_its_creator_alone() -> None:
    new = obj(CONFIGMAPS, owner=A, controlled_by="s")

    def labels(writer: Writer) -> object:
        return stored(new, withheld(new, of=CONFIGMAPS, writer=writer)).labels

    assert labels(OWNERS_POD) == {OWNER: A}
    assert labels(OTHER_POD) == labels(PERSON) == {}


def replace_labels(of: PartialObject, labels: dict[str, str] | None) -> PartialObject:
    return structs.replace(of, metadata=structs.replace(of.metadata, labels=labels))
