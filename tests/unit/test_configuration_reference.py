"""docs/configuration.md has every field of the SharderConfig, the chart's README every value."""

import json
from collections.abc import Iterator

import msgspec
import yaml

from hack.reference import readme
from hack.reference.configuration import DOCUMENT, SCHEMA, VALUES, document
from hack.reference.schema import Schema, read
from sharder.config import Settings, environment_names, load
from sharder.config.fields import MEANINGLESS, Path, fields
from sharder.core.api.meta import Json
from sharder.core.names import CONFIG_API_VERSION, SYSTEM_NAMESPACE
from tests.support.documents import code, tables

CONFIG = read(SCHEMA.read_text()).properties["config"]
SELECTOR = ("webhook", "config", "namespaceSelector")


def written(values: Json = None, definitions: Json = None, **properties: Json) -> str:
    """Return the README of a chart with these values, and a configuration with one field."""
    return readme.document(schema(definitions, **properties), yaml.safe_dump(values or {}))


def schema(definitions: Json = None, **properties: Json) -> str:
    """Return the schema of a chart with these values, and a configuration with one field."""
    level: Json = {"type": "string", "default": "info"}
    config: Json = {"type": ["object", "null"], "properties": {"level": level}}
    return json.dumps(
        {
            "required": ["size"],
            "properties": {**properties, "config": config},
            "definitions": definitions or {},
        }
    )


def values_in(text: str) -> list[list[list[str]]]:
    """Return the tables below the heading of the values."""
    return tables(text.partition("\n## Values\n")[2])


def row(text: str) -> list[str]:
    """Return the cells of the first value."""
    return values_in(text)[0][0]


def described(path: Path) -> Schema:
    schema = CONFIG
    for name in path:
        schema = schema.properties[name]
    return schema


def defaults(schema: Schema) -> dict[str, object]:
    """Return what the schema says would be in a file that says all."""
    below = {name: defaults(each) or each.default for name, each in schema.properties.items()}
    return {name: default for name, default in below.items() if default is not None}


def untold() -> Iterator[tuple[Path, object]]:
    """Yield the defaults that only the program has; an empty one says nothing."""
    tree = msgspec.to_builtins(Settings())
    for path in fields().keys() - {*MEANINGLESS}:
        value = tree
        for name in path:
            value = value[name]
        if value and described(path).default is None:
            yield path, SYSTEM_NAMESPACE if path == SELECTOR else value


def test_the_document_is_what_the_chart_says_today() -> None:
    assert DOCUMENT.read_text() == document(SCHEMA.read_text(), VALUES.read_text())


def test_the_defaults_in_the_schema_are_those_of_the_program() -> None:
    said = {"apiVersion": CONFIG_API_VERSION, "kind": "SharderConfig", **defaults(CONFIG)}

    assert load(yaml.safe_dump(said).encode(), strict=True).settings == Settings()


def test_a_default_that_the_chart_changes_is_reported_in_words() -> None:
    found = dict(untold())

    silent = [path for path in found if str(found[path]) not in described(path).description]
    assert found
    assert not silent


def test_the_default_of_a_value_stands_in_the_values() -> None:
    assert row(written({"size": 3}, size={"type": "integer"})) == ["`size`", "integer", "`3`", ""]


def test_the_default_of_a_field_of_a_value_stands_in_the_values() -> None:
    text = written({"box": {"size": 3}}, box={"properties": {"size": {"type": "integer"}}})

    assert values_in(text)[1][0] == ["`size`", "integer", "`3`", ""]


def test_a_required_value_without_a_default_is_to_be_given() -> None:
    assert row(written(size={"type": "integer"}))[2] == "required"


def test_a_value_that_may_be_null_says_so() -> None:
    assert row(written(size={"type": ["integer", "null"]}))[1] == "integer or null"


def test_a_reference_stands_for_its_definition() -> None:
    text = written(
        definitions={"count": {"type": "integer", "description": "A count."}},
        box={"items": {"$ref": "#/definitions/count"}},
        size={"$ref": "#/definitions/count"},
    )

    assert values_in(text)[0][:2] == [
        ["`box`", "list of integers", "", ""],
        ["`size`", "integer", "required", "A count."],
    ]


def test_a_definition_of_texts_with_several_meanings_is_reported_once() -> None:
    text = written(
        definitions={"count": {"type": "integer", "minimum": 1, "description": "A count."}},
        size={"$ref": "#/definitions/count", "description": "How large."},
    )

    assert row(text) == ["`size`", "[count](#formats)", "required", "How large."]
    assert values_in(text)[-1] == [["count", "integer, 1 or more", "A count."]]


def test_the_fields_of_the_configuration_have_a_page_of_their_own() -> None:
    linked = f"[Its fields]({readme.CONFIGURATION})."

    assert values_in(written({"config": {}}))[0] == [
        ["`config`", "object or null", "`{}`", linked]
    ]
    assert tables(document(schema(), "{}"))[0] == [["`level`", "string", '`"info"`', ""]]


def test_the_variables_stand_beside_the_fields_that_they_set() -> None:
    rows = tables(document(schema(), "{}"))[-1]

    told = {code(name)[0]: code(field)[0] for name, field in rows}

    assert told == {name: ".".join(path) for name, path in environment_names().items()}
