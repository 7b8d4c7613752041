"""docs/configuration.md has every field of the SharderConfig, the chart's README every value."""

import yaml

from hack.reference.configuration import SCHEMA
from hack.reference.schema import Schema, read
from sharder.config.load import load
from sharder.config.settings import Settings
from sharder.core.names import CONFIG_API_VERSION

CONFIG = read(SCHEMA.read_text()).properties["config"]


def defaults(schema: Schema) -> dict[str, object]:
    """Return what the schema says would be in a file that says all."""
    below = {name: defaults(each) or each.default for name, each in schema.properties.items()}
    return {name: default for name, default in below.items() if default is not None}


def test_the_defaults_in_the_schema_are_those_of_the_program() -> None:
    said = {"apiVersion": CONFIG_API_VERSION, "kind": "SharderConfig", **defaults(CONFIG)}

    assert load(yaml.safe_dump(said).encode(), strict=True).settings == Settings()
