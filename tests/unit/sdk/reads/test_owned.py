"""What a shard has last seen of its objects."""

import pytest

from sharder.core.api.meta import ObjectMeta
from sharder.core.names import ObjectRef, ShardName
from sharder.sdk.reads.objects import OwnMeta, OwnObject
from sharder.sdk.reads.owned import Identity, OwnedObjects, Ownership
from tests.unit.sdk.scene import DRAIN, ME, OTHER, OWNER, RING

IDENTITY = Identity(ring=RING, shard=ShardName(ME))
REF = ObjectRef("default", "one")


def obj(version: str = "1", name: str = "one", **labels: str) -> OwnObject:
    """An object of ours."""
    meta = OwnMeta(
        name=name, namespace="default", resource_version=version, labels={OWNER: ME, **labels}
    )
    return OwnObject(metadata=meta)


@pytest.mark.parametrize(
    ("labels", "position"),
    [
        ({OWNER: ME}, Ownership.OURS),
        ({OWNER: ME, DRAIN: "true"}, Ownership.DRAINING),
        ({OWNER: ME, DRAIN: ""}, Ownership.DRAINING),
        ({OWNER: OTHER}, Ownership.ELSEWHERE),
        ({OWNER: OTHER, DRAIN: "true"}, Ownership.ELSEWHERE),
        ({DRAIN: "true"}, Ownership.ELSEWHERE),
        ({}, Ownership.ELSEWHERE),
        (None, Ownership.ELSEWHERE),
    ],
)
def test_the_labels_say_where_an_object_stands(
    labels: dict[str, str] | None, position: Ownership
) -> None:
    assert IDENTITY.ownership_of(ObjectMeta(labels=labels)) is position


def test_only_the_shards_own_objects_are_asked_for() -> None:
    assert IDENTITY.selector == f"{OWNER}={ME}"


def test_what_was_never_seen_is_elsewhere() -> None:
    assert OwnedObjects(IDENTITY).ownership(REF) is Ownership.ELSEWHERE


def test_a_list_tells_what_came_changed_and_went() -> None:
    owned = OwnedObjects(IDENTITY)
    owned.replace([obj(name="same"), obj(name="changes"), obj(name="goes")])

    affected = owned.replace([obj(name="same"), obj("2", name="changes"), obj(name="comes")])

    assert {ref.name for ref in affected} == {"changes", "goes", "comes"}


def test_an_object_is_forgotten_only_as_it_was() -> None:
    owned = OwnedObjects(IDENTITY)
    owned.update(obj("1"))
    owned.update(obj("2"))

    owned.forget(REF, version="1")

    assert owned.ownership(REF) is Ownership.OURS


def test_an_object_that_has_left_is_forgotten_in_any_version() -> None:
    owned = OwnedObjects(IDENTITY)
    owned.update(obj("2"))

    owned.forget(REF)

    assert list(owned) == []
