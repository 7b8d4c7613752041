"""Facts about `sharder.core.movement.patches`: the exact bytes of what we ask for."""

import msgspec
import pytest

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.movement import patches
from sharder.core.movement.patches import Operation
from sharder.core.movement.step import Assign, Claim, Drain, Keep, Relabel, Release, Withdraw
from sharder.core.names import ShardName, pin_label
from tests.support.json_patch import PatchError, apply_json_patch, written
from tests.support.rules import apply_merge_patch
from tests.support.values import DEMO, DRAIN, NEXT, OWNER, SECRETS, A, B, C, obj, snapshot
from tests.support.values_placement import BOUNDED, RENDEZVOUS, shard
from tests.support.values_steering import steered

RING = snapshot()
BARE = ObjectMeta(name="w", resource_version="7")


def meta(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> ObjectMeta:
    return ObjectMeta(name="w", resource_version="7", labels=labels, annotations=annotations)


# Merge patches


def test_every_write_is_guarded_by_the_version_that_was_seen() -> None:
    for step in (Assign(A), Relabel(A), Drain(A), Withdraw(), Claim(A), Release()):
        body = patches.patch_of(snapshot(), obj(), step)

        assert isinstance(body, dict)
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        assert metadata["resourceVersion"] == "7"


def test_a_step_without_a_write_has_no_patch() -> None:
    assert patches.patch_of(snapshot(), obj(), Keep("in place")) is None


def test_assigning_sets_the_owner_and_ends_the_drain_under_guard() -> None:
    assert patches.assign(RING, BARE, A) == {
        "metadata": {"resourceVersion": "7", "labels": {OWNER: A, DRAIN: None}}
    }


def test_withdrawing_ends_the_drain_and_leaves_the_owner() -> None:
    assert patches.withdraw(RING, BARE) == {
        "metadata": {"resourceVersion": "7", "labels": {DRAIN: None}}
    }


def test_claiming_directs_an_object_and_assigns_it_to_no_shard() -> None:
    assert patches.claim(RING, BARE, A) == {
        "metadata": {"resourceVersion": "7", "labels": {}, "annotations": {NEXT: A}}
    }


@pytest.mark.parametrize("value", [B, ""])
def test_every_write_of_the_drain_label_removes_where_an_earlier_drain_was_directed(
    value: str,
) -> None:
    directed = obj(annotations={NEXT: value, "x": "y"})
    writes = [
        patches.assign(RING, directed.metadata, A),
        patches.withdraw(RING, directed.metadata),
        patches.drain(RING, directed),
    ]

    left = [written(directed, patch).metadata.annotations for patch in writes]

    assert left == [{"x": "y"}] * 3


def test_asking_for_an_object_adds_the_drain_label_under_guard() -> None:
    assert patches.drain(RING, obj()) == {
        "metadata": {"resourceVersion": "7", "labels": {DRAIN: "true"}}
    }


@pytest.mark.parametrize("annotations", [None, {NEXT: "old", "x": "y"}])
def test_asking_for_an_object_says_where_it_goes_where_objects_are_counted(
    annotations: dict[str, str] | None,
) -> None:
    found = obj(owner=A, annotations=annotations)
    follows, counts = steered(shard(A), spec=RENDEZVOUS), steered(shard(A), spec=BOUNDED)

    left = [
        written(found, patches.drain(ring, found, B)).metadata.annotation(NEXT)
        for ring in (follows, counts)
    ]

    assert left == ["", B]
    assert patches.drain(counts, obj()) == patches.drain(follows, obj(), B)


def test_asking_for_a_pinned_object_says_where_it_goes_wherever_it_is() -> None:
    pinned = obj(owner=A, labels={pin_label(DEMO): C})
    follows = steered(shard(A), spec=RENDEZVOUS)

    left = written(pinned, patches.drain(follows, pinned, B))

    assert left.metadata.annotation(NEXT) == B


def test_asking_for_an_object_that_leads_others_says_where_it_goes_wherever_it_is() -> None:
    leading = obj(SECRETS, owner=A)
    follows = steered(shard(A), spec=RENDEZVOUS)

    left = written(leading, patches.drain(follows, leading, B))
    unknown = written(leading, patches.drain(follows, leading))

    assert left.metadata.annotation(NEXT) == B
    assert unknown.metadata.annotations == {NEXT: ""}  # a replace would drop it


@pytest.mark.parametrize("annotations", [{}, {NEXT: B}])
def test_what_a_ring_has_left_is_removed_in_one_write_under_guard(
    annotations: dict[str, str],
) -> None:
    marked = obj(owner=A, labels={"x": "y"}, annotations={**annotations, "x": "y"})

    patch = patches.forget(marked.metadata, owner=OWNER, drain=DRAIN, direction=NEXT)

    clean = written(marked, patch).metadata
    assert (clean.labels, clean.annotations) == ({"x": "y"}, {"x": "y"})
    assert written(PartialObject(), patch).metadata.resource_version == "7"


def test_an_acknowledgement_removes_both_labels_in_one_write() -> None:
    assert patches.acknowledge(BARE, owner_label=OWNER, drain_label=DRAIN) == {
        "metadata": {"resourceVersion": "7", "labels": {OWNER: None, DRAIN: None}}
    }


@pytest.mark.parametrize("shard", ["", "x" * 64, "no shard"])
def test_an_object_is_never_assigned_to_what_cannot_stand_in_a_label(shard: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a label"):
        patches.assign(RING, BARE, ShardName(shard))


# JSON patches


def test_labels_are_made_first_where_there_are_none() -> None:
    operations = patches.admission(BARE, labels={"example.com/a": "1"})

    assert msgspec.json.encode(operations) == (
        b'[{"op":"add","path":"/metadata/labels","value":{}},'
        b'{"op":"add","path":"/metadata/labels/example.com~1a","value":"1"}]'
    )


def test_labels_that_are_there_stay() -> None:
    operations = patches.admission(meta(labels={}), labels={"a": "1"})

    assert operations == (Operation(op="add", path="/metadata/labels/a", value="1"),)


def test_an_operation_that_removes_has_no_value_and_an_empty_value_is_sent() -> None:
    operations = patches.admission(meta(labels={"a": "1"}), labels={"a": None, "b": ""})

    assert msgspec.json.encode(operations) == (
        b'[{"op":"remove","path":"/metadata/labels/a"},'
        b'{"op":"add","path":"/metadata/labels/b","value":""}]'
    )


def test_a_patch_without_a_change_has_no_operations() -> None:
    present = meta(labels={"a": "1", "empty": ""}, annotations={"n": "2"})

    assert (
        patches.admission(
            present,
            labels={"a": "1", "empty": "", "absent": None},
            annotations={"n": "2", "absent": None},
        )
        == ()
    )
    assert patches.admission(BARE, labels={"a": None}, annotations={"n": None}) == ()


def test_annotations_are_changed_like_labels() -> None:
    operations = patches.admission(
        meta(annotations={"n/1": ""}), labels={}, annotations={"n/1": None}
    )

    assert operations == (Operation(op="remove", path="/metadata/annotations/n~11"),)


def test_a_tilde_in_a_key_is_escaped_before_the_slash() -> None:
    operations = patches.admission(meta(labels={}), labels={"~1/a": "x"})

    assert operations[0].path == "/metadata/labels/~01~1a"


@pytest.mark.parametrize("value", ["x" * 64, "no shard", "-"])
def test_an_invalid_label_value_is_never_sent(value: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a label"):
        patches.admission(BARE, labels={"ok": "1", "a": value})


# What the tests apply patches with


def test_the_tests_refuse_operations_that_the_api_server_refuses() -> None:
    nowhere = [
        Operation(op="add", path="/metadata/labels/a", value="1"),
        Operation(op="remove", path="/metadata/name/a"),
        Operation(op="remove", path="/a"),
    ]

    for operation in nowhere:
        with pytest.raises(PatchError):
            apply_json_patch({"metadata": {"name": "w"}}, [operation])


def test_the_tests_apply_operations_in_order() -> None:
    before: Json = {"a": {"b/c": "1", "d": "2"}, "e": 3}

    after = apply_json_patch(
        before,
        [
            Operation(op="remove", path="/a/b~1c"),
            Operation(op="add", path="/a/d", value="3"),
            Operation(op="add", path="/f", value={}),
            Operation(op="add", path="/f/~0", value="4"),
        ],
    )

    assert after == {"a": {"d": "3"}, "e": 3, "f": {"~": "4"}}
    assert before == {"a": {"b/c": "1", "d": "2"}, "e": 3}


def test_the_tests_merge_as_rfc_7386_shows() -> None:
    # The example of RFC 7386, section 3, in short.
    before: Json = {"title": "Goodbye!", "author": {"given": "John", "family": "Doe"}, "tags": [1]}
    patch: Json = {"title": "Hello!", "author": {"family": None}, "tags": [2], "phone": {"x": "y"}}

    assert apply_merge_patch(before, patch) == {
        "title": "Hello!",
        "author": {"given": "John"},
        "tags": [2],
        "phone": {"x": "y"},
    }
    assert apply_merge_patch("text", {"a": None}) == {}
