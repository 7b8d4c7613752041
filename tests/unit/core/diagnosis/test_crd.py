"""Facts about `sharder.core.diagnosis.installation`: what the API server would drop is named."""

import msgspec

from sharder.core.api.cluster import Schema
from sharder.core.diagnosis.finding import Level
from sharder.core.diagnosis.installation import crd, missing_in
from tests.unit.core.diagnosis.installed import released


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


def test_the_first_of_many_missing_fields_are_named_and_the_rest_counted() -> None:
    found = crd(Schema())

    assert "spec.resources" in found.message
    assert found.message.endswith(f"and {len(missing_in(Schema())) - 5} more")
