"""Facts about `sharder.core.movement.patches`: the exact bytes of what we ask for."""

import pytest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.movement import patches
from sharder.core.movement.step import Assign, Disown, Drain, Keep, Send, Withdraw
from sharder.core.movement.step_patch import patch_of
from sharder.core.names import ShardName
from tests.support.json_patch import written
from tests.support.values import DRAIN, NEXT, OWNER, SECRETS, A, B, obj, snapshot
from tests.support.values_placement import BOUNDED, RENDEZVOUS, shard
from tests.support.values_steering import steered

RING = snapshot()
BARE = ObjectMeta(name="w", resource_version="7")


# Merge patches


def test_every_write_is_guarded_by_the_version_that_was_seen() -> None:
    for step in (Assign(A), Drain(A), Withdraw(), Send(A), Disown()):
        body = patch_of(snapshot(), obj(), step)

        assert isinstance(body, dict)
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        assert metadata["resourceVersion"] == "7"


def test_a_step_without_a_write_has_no_patch() -> None:
    assert patch_of(snapshot(), obj(), Keep("in place")) is None


@pytest.mark.parametrize("value", [B, ""])
def test_every_write_of_the_drain_label_replaces_where_an_earlier_drain_was_directed(
    value: str,
) -> None:
    directed = obj(annotations={NEXT: value, "x": "y"})
    writes = [
        patch_of(RING, directed, Assign(A)),
        patch_of(RING, directed, Withdraw()),
        patch_of(RING, directed, Drain(A)),
    ]

    left = [written(directed, patch).metadata.annotations for patch in writes]

    assert left == [{"x": "y"}, {"x": "y"}, {NEXT: "", "x": "y"}]


@pytest.mark.parametrize("annotations", [None, {NEXT: "old", "x": "y"}])
def test_every_drain_has_a_next_which_names_a_shard_where_objects_are_counted(
    annotations: dict[str, str] | None,
) -> None:
    found = obj(owner=A, annotations=annotations)
    follows, counts = steered(shard(A), spec=RENDEZVOUS), steered(shard(A), spec=BOUNDED)

    left = [
        written(found, patch_of(ring, found, Drain(A, B))).metadata.annotation(NEXT)
        for ring in (follows, counts)
    ]

    assert left == ["", B]


def test_asking_for_an_object_that_leads_others_says_where_it_goes_wherever_it_is() -> None:
    leading = obj(SECRETS, owner=A)
    follows = steered(shard(A), spec=RENDEZVOUS)

    left = written(leading, patch_of(follows, leading, Drain(A, B)))
    unknown = written(leading, patch_of(follows, leading, Drain(A)))

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


@pytest.mark.parametrize("shard", ["", "x" * 64, "no shard"])
def test_an_object_is_never_assigned_to_what_cannot_stand_in_a_label(shard: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a label"):
        patch_of(RING, obj(), Assign(ShardName(shard)))


# JSON patches


@pytest.mark.parametrize("value", ["x" * 64, "no shard", "-"])
def test_an_invalid_label_value_is_never_sent(value: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a label"):
        patches.admission(BARE, labels={"ok": "1", "a": value})
