"""Generates docs/configuration.md and the chart's README from the schema of the chart's values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml
from msgspec.structs import replace

from hack.reference.schema import Schema, read, with_defaults
from hack.reference.tables import Section, collect, formats, table

ROOT: Final = Path(__file__).parents[2]
SCHEMA: Final = ROOT / "charts/sharder/values.schema.json"
VALUES: Final = ROOT / "charts/sharder/values.yaml"
DOCUMENT: Final = ROOT / "docs/configuration.md"
README: Final = ROOT / "charts/sharder/README.md"
PAGE: Final = "../../docs/configuration.md#sharderconfig"
RING: Final = "../../docs/reference.md"

HEAD: Final = """\
# Configuration

<!-- Written by `make reference` from values.schema.json and values.yaml of the chart: \
change these. -->

Fields of the SharderConfig, the file of [`sharder run --config`](commands.md#sharder-run).
The chart writes that file from the [values](../charts/sharder/README.md#values) under `config`.

## SharderConfig

An empty text and null mean the default; a field without a default is not set.
`sharder run` warns about an unknown field, and the chart refuses it.
`sharder run` also accepts, unlike the chart, port 0 for any free port, and `0` as \
`health.bindAddress`, which turns it off.
"""
VARIABLES: Final = """\
## Variables

Each field has a variable, which wins over the file: `SHARDER_` and the path in capitals, with \
`_` between words: `SHARDER_LEADER_ELECTION_LEASE_DURATION` sets `leaderElection.leaseDuration`.
Lists and mappings, such as `namespaceSelector` as a whole, are written as in YAML: `[a, b]`.
The chart also sets `POD_NAME`, with which the name of a leader begins, and `POD_NAMESPACE`, \
whose objects are never sharded ([security.md](security.md#the-webhook)).
"""
README_HEAD: Final = """\
# sharder

<!-- Written by `make reference` from values.schema.json and values.yaml: change these. -->

Spreads the objects of Kubernetes controllers over all their replicas.
You need Kubernetes 1.30 or newer and helm 4, or helm 3 without `rings[].create`.

[Build an image](../../docs/install.md#build-the-image), then install the chart with its name \
and the resources of your controller:

```sh
helm install sharder charts/sharder --namespace sharding-system --create-namespace \\
  --set image.repository=registry.example.com/sharder \\
  --set-json 'rings=[{"name": "my-ring", "resources": [{"resource": "secrets"}], "create": true}]'
```

[install.md](../../docs/install.md) has the other steps.

## Values

helm refuses unknown values, and values of another type.
A value without a default is not set, or empty.
"""


def document(schema: str, values: str) -> str:
    """Return the page, from the text of the JSON schema and of values.yaml."""
    root = with_defaults(read(schema), yaml.safe_load(values))
    fields = sections(root.properties["config"])
    lines = [HEAD, *rendered(fields), *formats(fields, root.definitions), VARIABLES]
    return "\n".join(lines)


def sections(schema: Schema) -> list[Section]:
    """Return a section for each object with fields in a schema."""
    known = list[Section]()
    collect(Section(path="", schema=schema, about=""), known)
    return known


def rendered(sections: list[Section]) -> Iterator[str]:
    """Yield the lines of the sections, with their headings."""
    for each in sections:
        if each.path:
            yield from (f"### {each.path}", "")
        yield from table(each, sections)


def readme(schema: str, values: str) -> str:
    """Return the README, from the text of the JSON schema and of values.yaml."""
    root = with_defaults(read(schema), yaml.safe_load(values))
    rings = root.properties["rings"]
    item = rings.items or rings
    fields = {
        **item.properties,
        "resources": _linked(item.properties["resources"], f"{RING}#specresources"),
        "spec": _linked(item.properties["spec"], f"{RING}#spec"),
    }
    shown = {
        **root.properties,
        "config": _linked(root.properties["config"], PAGE),
        "rings": replace(rings, items=replace(item, properties=fields)),
    }
    chart = sections(replace(root, properties=shown))
    lines = [README_HEAD, *rendered(chart), *formats(chart, root.definitions)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _linked(schema: Schema, page: str) -> Schema:
    """Return a field whose own fields another page has."""
    description = f"{schema.description} [Its fields]({page})."
    item = schema.items and replace(schema.items, properties={})
    return replace(schema, description=description, properties={}, items=item)
