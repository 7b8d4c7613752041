"""Facts about `sharder.core.check.crd`: what the API server would drop is named."""

import msgspec
import pytest

from sharder.core.api.cluster import Schema
from sharder.core.check.crd import crd, missing_in
from sharder.core.check.finding import Level, Unread
from tests.unit.core.check.installed import released


def without(schema: Schema, *path: str) -> Schema:
    """Return the schema without the field at the path; a list is stepped into."""
    name, *rest = path
    below = dict(schema.properties)
    if rest:
        below[name] = without(below[name], *rest)
    else:
        del below[name]
    return msgspec.structs.replace(schema, properties=below)


def test_the_crd_of_this_release_has_everything() -> None:
    found = crd(released())

    assert (found.level, found.advice) == (Level.OK, None)


def test_a_cluster_without_the_crd_fails() -> None:
    assert crd(None).level is Level.FAIL


def test_a_schema_that_cannot_be_read_is_a_warning() -> None:
    found = crd(Unread("forbidden"))

    assert (found.level, found.message) == (Level.WARN, "not checked: forbidden")


@pytest.mark.parametrize("path", [("spec", "movement"), ("spec", "placement", "groupBy")])
def test_a_field_that_the_crd_lacks_is_named(path: tuple[str, ...]) -> None:
    old = without(released(), *path)

    assert missing_in(old) == [".".join(path)]
    assert crd(old).level is Level.FAIL


def test_a_field_in_the_items_of_a_list_is_named() -> None:
    schema = released()
    status = schema.properties["status"]
    shards = status.properties["shardStatuses"]
    assert shards.items is not None
    items = without(shards.items, "zone")
    changed = msgspec.structs.replace(shards, items=items)
    below = {**status.properties, "shardStatuses": changed}
    old = msgspec.structs.replace(
        schema,
        properties={
            **schema.properties,
            "status": msgspec.structs.replace(status, properties=below),
        },
    )

    assert missing_in(old) == ["status.shardStatuses[].zone"]


def test_a_value_that_the_crd_lacks_is_named() -> None:
    schema = released()
    spec = schema.properties["spec"]
    placement = spec.properties["placement"]
    strategy = msgspec.structs.replace(
        placement.properties["strategy"], enum=("ConsistentHash", "Rendezvous")
    )
    below = {**placement.properties, "strategy": strategy}
    placement = msgspec.structs.replace(placement, properties=below)
    spec = msgspec.structs.replace(spec, properties={**spec.properties, "placement": placement})
    old = msgspec.structs.replace(schema, properties={**schema.properties, "spec": spec})

    assert "spec.placement.strategy=BoundedLoad" in missing_in(old)
    assert "spec.placement.strategy=Rendezvous" not in missing_in(old)


def test_the_first_of_many_missing_fields_are_named_and_the_rest_counted() -> None:
    found = crd(Schema())

    assert "spec.resources" in found.message
    assert found.message.endswith(f"and {len(missing_in(Schema())) - 5} more")
