"""docs/configuration.md has every field of the SharderConfig, the chart's README every value."""

from collections.abc import Iterator

import msgspec
import yaml

from hack.reference.configuration import SCHEMA
from hack.reference.schema import Schema, read
from sharder.config import Settings, load
from sharder.config.fields import MEANINGLESS, Path, fields
from sharder.core.names import CONFIG_API_VERSION, SYSTEM_NAMESPACE

CONFIG = read(SCHEMA.read_text()).properties["config"]
SELECTOR = ("webhook", "config", "namespaceSelector")


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


def test_the_defaults_in_the_schema_are_those_of_the_program() -> None:
    said = {"apiVersion": CONFIG_API_VERSION, "kind": "SharderConfig", **defaults(CONFIG)}

    assert load(yaml.safe_dump(said).encode(), strict=True).settings == Settings()


def test_a_default_that_the_chart_changes_is_reported_in_words() -> None:
    found = dict(untold())

    silent = [path for path in found if str(found[path]) not in described(path).description]
    assert found
    assert not silent
