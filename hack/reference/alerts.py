"""Generates docs/alerts.md from the chart's alerts and what to do about each."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs/alerts.md"
RULES: Final = ROOT / "charts/sharder/files/alerts.yaml"
RUNBOOKS: Final = Path(__file__).with_name("runbooks.yaml")
"""What to do, by the name of the alert."""

HEAD: Final = """\
# Alerts

<!-- Written by `make reference` from the rules in charts/sharder/files/alerts.yaml and what to \
do in hack/reference/runbooks.yaml: change these. -->

What each alert means, and what to do.
The chart has these alerts with [`prometheusRule.enabled`](install.md#be-alerted); without the \
Prometheus operator load `charts/sharder/files/alerts.yaml` as a rule file.

A critical alert needs a person now: objects have no owner, or soon would have none.
So does SharderObjectsUnassigned, unless the shards only lack room.
In the commands, replace `my-ring` by the alert's label `controllerring`, `secrets` by its label \
`resource`, and `my-controller` by the namespace of your shards.
[metrics.md](metrics.md) explains the metrics.
"""

EXAMPLES: Final = {"controllerring": "my-ring", "resource": "secrets", "shard": "shard-b"}
"""What stands in the page for the labels of an alert; others are named in capitals."""


def document(rules: str, runbooks: Mapping[str, str]) -> str:
    """Return the page; `rules` is the file RULES, `runbooks` the texts of RUNBOOKS."""
    groups = yaml.safe_load(rules)["groups"]
    sections = [
        f"\n## {rule['alert']}\n\n**{rule['labels']['severity'].capitalize()}: "
        f"{rule['annotations']['summary']}**\n{_filled(rule['annotations']['description'])}\n\n"
        f"{runbooks[rule['alert']]}"
        for group in groups
        for rule in group["rules"]
    ]
    return HEAD + "".join(sections)


def _filled(description: str) -> str:
    """Return a description with examples in the place of its labels and its value."""
    named = re.sub(
        r"\{\{ \$labels\.(\w+) \}\}",
        lambda label: EXAMPLES.get(label[1], label[1].upper()),
        description,
    )
    return re.sub(r"\{\{ \$value.*? \}\}", "N", named)
