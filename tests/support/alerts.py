"""Alerts under promtool: series of a scrape, some of them changed, and what fires then."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from hack import binaries
from tests.chart.rendering import CHART

FILE: Final = CHART / "files/alerts.yaml"
MINUTES: Final = 40
"""How long the series go on: longer than any alert waits."""

TARGET: Final = {
    "job": "sharder",
    "instance": "10.0.0.1:8080",
    "namespace": "sharding-system",
    "pod": "sharder-0",
}
"""The labels of the scraped replica; with honorLabels those of a series win."""

DASHBOARD: Final = CHART / "files/dashboard.json"

FIRING: Final = 'group by (alertname) (ALERTS{alertstate="firing"})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of some series."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only series with these."""
    values: str = ""
    """In promtool's words, such as `1` or `0+5`; empty: the series are gone."""
    become: Mapping[str, str] = field(default_factory=dict)
    """Labels that they get."""

    def concerns(self, sample: Sample) -> bool:
        """Return whether it changes the series of a sample."""
        return self.name == sample.name and self.labels.items() <= sample.labels.items()


def queries() -> list[str]:
    """Return the PromQL expressions of all panels of the dashboard."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def rules() -> list[Mapping[str, str]]:
    """Return the alerts of the chart."""
    (group,) = yaml.safe_load(FILE.read_text())["groups"]
    return list(group["rules"])


def samples_of(scrape: str) -> list[Sample]:
    """Return the samples of a scrape.

    The parser gives each counter the end that OpenMetrics asks for, but not all of the API
    server's have it.
    """
    found = [s for family in text_string_to_metric_families(scrape) for s in family.samples]
    is_there = {name: f"\n{name}" in scrape for name in {s.name for s in found}}
    return [
        s if is_there[s.name] else s._replace(name=s.name.removesuffix("_total")) for s in found
    ]


Series: TypeAlias = Mapping[str, str]
"""A series in the words of promtool: `series` and its `values`."""


def changed(samples: Iterable[Sample], changes: Sequence[Change]) -> list[Series]:
    """Return the series of a scrape after the changes; the last one wins.

    Raises:
        AssertionError: a change concerns no series.
    """
    found, used = list[Series](), set[int]()
    for sample in samples:
        values, labels = f"{sample.value:f}", TARGET | sample.labels
        for number, change in enumerate(changes):
            if change.concerns(sample):
                used.add(number)
                values, labels = change.values, labels | dict(change.become)
        if values:
            found.append(series(sample.name, labels, values))
    unused = [change for number, change in enumerate(changes) if number not in used]
    assert not unused, f"no series for {unused}"
    return found


def series(name: str, labels: Mapping[str, str], values: str) -> Series:
    """Return a series that goes on as `Change.values` says."""
    named = ",".join(f"{label}={json.dumps(value)}" for label, value in labels.items())
    step = "" if "+" in values else "+0"
    return {"series": f"{name}{{{named}}}", "values": f"{values}{step}x{MINUTES}"}


def judge(folder: Path, given: Sequence[Series], alerts: Iterable[str]) -> None:
    """Insist that exactly these alerts fire.

    Raises:
        AssertionError: others do; the message is what promtool says.
    """
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
    firing = {"expr": FIRING, "eval_time": f"{MINUTES - 5}m", "exp_samples": expected}
    test = {"interval": "1m", "input_series": [*given], "promql_expr_test": [firing]}
    file = folder / "test.yaml"
    content = {"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(yaml.safe_dump(content))
    promtool("test", "rules", str(file))


def promtool(*arguments: str) -> str:
    """Return what promtool prints.

    Raises:
        AssertionError: it is not content; the message is what it says.
    """
    done = subprocess.run(
        [binaries.promtool(), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
