"""What a shard has last seen of its objects."""

import pytest

from sharder.api.meta import ObjectMeta, PartialObject
from sharder.names import ObjectRef, ShardName
from sharder.sdk.holding import Holding, Identity, Position
from tests.unit.sdk.world import DRAIN, ME, OTHER, OWNER, RING

IDENTITY = Identity(ring=RING, shard=ShardName(ME))
REF = ObjectRef("default", "one")


def obj(version: str = "1", name: str = "one", **labels: str) -> PartialObject:
    """An object of ours."""
    meta = ObjectMeta(
        name=name, namespace="default", resource_version=version, labels={OWNER: ME, **labels}
    )
    return PartialObject(metadata=meta)


@pytest.mark.parametrize(
    ("labels", "position"),
    [
        ({OWNER: ME}, Position.OURS),
        ({OWNER: ME, DRAIN: "true"}, Position.DRAINING),
        ({OWNER: ME, DRAIN: ""}, Position.DRAINING),
        ({OWNER: OTHER}, Position.ELSEWHERE),
        ({OWNER: OTHER, DRAIN: "true"}, Position.ELSEWHERE),
        ({DRAIN: "true"}, Position.ELSEWHERE),
        ({}, Position.ELSEWHERE),
        (None, Position.ELSEWHERE),
    ],
)
def test_the_labels_say_where_an_object_stands(
    labels: dict[str, str] | None, position: Position
) -> None:
    assert IDENTITY.position_of(ObjectMeta(labels=labels)) is position


def test_only_the_shards_own_objects_are_asked_for() -> None:
    assert IDENTITY.selector == f"{OWNER}={ME}"


def test_what_was_never_seen_is_elsewhere() -> None:
    assert Holding(IDENTITY).position(REF) is Position.ELSEWHERE


def test_a_list_tells_what_came_changed_and_went() -> None:
    holding = Holding(IDENTITY)
    holding.replace([obj(name="same"), obj(name="changes"), obj(name="goes")])

    affected = holding.replace([obj(name="same"), obj("2", name="changes"), obj(name="comes")])

    assert {ref.name for ref in affected} == {"changes", "goes", "comes"}


def test_an_object_is_forgotten_only_as_it_was() -> None:
    holding = Holding(IDENTITY)
    holding.see(obj("1"))
    holding.see(obj("2"))

    holding.forget(REF, version="1")

    assert holding.position(REF) is Position.OURS


def test_an_object_that_has_left_is_forgotten_in_any_version() -> None:
    holding = Holding(IDENTITY)
    holding.see(obj("2"))

    holding.forget(REF)

    assert list(holding) == []
