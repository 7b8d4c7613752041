"""docs/configuration.md, from the schema of the chart's values and their defaults."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml
from msgspec.structs import replace

from hack.reference.schema import Schema, read, with_defaults
from hack.reference.tables import Section, collect, formats, table
from sharder.config import environment_names

ROOT: Final = Path(__file__).parents[2]
SCHEMA: Final = ROOT / "charts/sharder/values.schema.json"
VALUES: Final = ROOT / "charts/sharder/values.yaml"
DOCUMENT: Final = ROOT / "docs/configuration.md"

HEAD: Final = """\
# Configuration

<!-- Written by `make reference` from values.schema.json and values.yaml of the chart: \
change these. -->

All that can be set: the values of the chart, and the fields of the SharderConfig, the file that \
`sharder run --config` reads.
The chart writes that file, and takes its fields as values under `config`.
[install.md](install.md#configure-it) and [cli.md](cli.md#sharder-run) have examples.

Where nothing stands under *Default* nothing is set, and *Meaning* says what follows from that.

## Values

helm refuses values that do not stand here, and those of another type.
"""
CONFIG: Final = """\
## SharderConfig

An empty text and null stand for the default.
`sharder run` warns of a field that it does not know, and the chart refuses one.

*Type* is what the chart takes.
`sharder run` itself takes two more: port 0 for any that is free, and `0` as \
`health.bindAddress`, which turns it off.
"""
VARIABLES: Final = """\
## Variables

Each sets a field of the SharderConfig, and wins over the file.
Lists and mappings are written as in YAML: `[a, b]`.
Two more say which pod it is, and the chart sets them.
`POD_NAME`, else the host's name, begins the name under which a replica leads.
What is in `POD_NAMESPACE` is never sharded ([security.md](security.md#the-webhook)).

| Variable | Field |
|---|---|
"""


def document(schema: str, values: str) -> str:
    """Return the reference of the values, from their JSON schema and the defaults in YAML."""
    root = with_defaults(read(schema), yaml.safe_load(values))
    config = root.properties["config"]
    linked = f"{config.description} [Its fields](#sharderconfig)."
    beside = {"config": replace(config, description=linked, properties={})}
    chart = _sections(replace(root, properties=root.properties | beside))
    fields = _sections(config)
    variables = [
        f"| `{name}` | `{'.'.join(path)}` |" for name, path in sorted(environment_names().items())
    ]
    lines = [
        HEAD,
        *_rendered(chart),
        CONFIG,
        *_rendered(fields),
        *formats([*chart, *fields], root.definitions),
        VARIABLES + "\n".join(variables),
    ]
    return "\n".join(lines) + "\n"


def _sections(schema: Schema) -> list[Section]:
    known = list[Section]()
    collect(Section(path="", schema=schema, is_item=False), known)
    return known


def _rendered(sections: list[Section]) -> Iterator[str]:
    for each in sections:
        if each.path:
            yield from (f"### {each.path}", "")
        yield from table(each, sections)
