"""Generates charts/sharder/README.md from the schema of the chart's values and their defaults."""

from pathlib import Path
from typing import Final

import yaml
from msgspec.structs import replace

from hack.reference.configuration import rendered, sections
from hack.reference.schema import read, with_defaults
from hack.reference.tables import formats

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "charts/sharder/README.md"
CONFIGURATION: Final = "../../docs/configuration.md#sharderconfig"

HEAD: Final = """\
# sharder

<!-- Written by `make reference` from values.schema.json and values.yaml: change these. -->

Spreads the objects of Kubernetes controllers over all their replicas: every replica works, \
each on objects of its own.
You need Kubernetes 1.30 or newer and helm 4, or helm 3 without `rings[].create`.

There is no published image: [build one](../../docs/install.md#build-the-image), then install \
the chart with its name and the resources of your controller:

```sh
helm install sharder charts/sharder --namespace sharding-system --create-namespace \\
  --set image.repository=registry.example.com/sharder \\
  --set-json 'rings=[{"name": "my-ring", "resources": [{"resource": "secrets"}], "create": true}]'
```

| You want to | Read |
|---|---|
| install and configure it | [install.md](../../docs/install.md) |
| make your controller a shard | [shard-your-controller.md](../../docs/shard-your-controller.md) |
| be alerted, and know what to do | [alerts.md](../../docs/alerts.md) |
| review its rights | [security.md](../../docs/security.md#all-rights) |
| upgrade it | [upgrade.md](../../docs/upgrade.md) |

## Values

helm refuses unknown values, and values of another type.
An empty *Default* means that the value is not set; *Meaning* describes the effect.
"""


def document(schema: str, values: str) -> str:
    """Return the README, from the text of the JSON schema and of values.yaml."""
    root = with_defaults(read(schema), yaml.safe_load(values))
    config = root.properties["config"]
    linked = f"{config.description} [Its fields]({CONFIGURATION})."
    without_fields = {"config": replace(config, description=linked, properties={})}
    chart = sections(replace(root, properties=root.properties | without_fields))
    lines = [HEAD, *rendered(chart), *formats(chart, root.definitions)]
    return "\n".join(lines).rstrip("\n") + "\n"
