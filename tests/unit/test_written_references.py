"""The pages to look things up say what schemas and code say today."""

import yaml
from prometheus_client import CollectorRegistry, Metric

from hack.reference import configuration, ring, sdk_api
from hack.reference.commands import DOCUMENT, REPORTS, document
from hack.reference.configuration import SCHEMA, VALUES
from hack.reference.schema import Schema, read
from sharder.cli.command import COMMANDS
from sharder.config.load import load
from sharder.config.settings import Settings
from sharder.core.names import CONFIG_API_VERSION
from sharder.metrics.registry import PREFIX, service_metrics
from tests.support.alerts import FILE
from tests.support.documents import OF_PYTHON, ROOT, documented_metrics


def registered(family: Metric) -> tuple[str, tuple[str, list[str], str]]:
    """Return the name of a metric of the service, with its type, labels and meaning."""
    suffix = "_total" if family.type == "counter" else ""
    of_samples = dict.fromkeys(label for each in family.samples for label in each.labels)
    labels = getattr(family, "_labelnames", of_samples)
    return f"{family.name}{suffix}", (family.type, list(labels), family.documentation)


def test_the_readme_of_the_chart_and_the_page_of_the_configuration_are_of_today() -> None:
    chart = SCHEMA.read_text(), VALUES.read_text()

    assert configuration.README.read_text() == configuration.readme(*chart)
    assert configuration.DOCUMENT.read_text() == configuration.document(*chart)


def test_the_reference_of_rings_is_what_the_crd_says_today() -> None:
    assert ring.DOCUMENT.read_text() == ring.document(ring.CRD.read_text())


def test_the_api_of_the_sdk_is_what_its_docstrings_say_today() -> None:
    assert sdk_api.DOCUMENT.read_text() == sdk_api.document()


def test_the_metrics_on_their_page_are_those_that_the_service_registers() -> None:
    registry = CollectorRegistry()
    service_metrics(registry, version="")

    described = {name: row[:3] for name, row in documented_metrics().items()}
    every = dict(map(registered, registry.collect()))
    assert described == {n: row for n, row in every.items() if not n.startswith(OF_PYTHON)}


def test_every_metric_of_the_sharder_says_what_to_look_for() -> None:
    assert [
        name for name, row in documented_metrics().items() if PREFIX in name and not row[3]
    ] == []


def test_every_alert_on_its_page_begins_with_its_severity_and_summary() -> None:
    page = (ROOT / "docs/alerts.md").read_text()
    (group,) = yaml.safe_load(FILE.read_text())["groups"]
    heads = [
        f"## {rule['alert']}\n\n**{rule['labels']['severity'].capitalize()}: "
        f"{rule['annotations']['summary']}**\n"
        for rule in group["rules"]
    ]

    assert [head for head in heads if head not in page] == []


# Settings


CONFIG = read(SCHEMA.read_text()).properties["config"]


def defaults(schema: Schema) -> dict[str, object]:
    """Return what the schema says would be in a file that says all."""
    below = {name: defaults(each) or each.default for name, each in schema.properties.items()}
    return {name: default for name, default in below.items() if default is not None}


def test_the_defaults_in_the_schema_are_those_of_the_program() -> None:
    said = {"apiVersion": CONFIG_API_VERSION, "kind": "SharderConfig", **defaults(CONFIG)}

    assert load(yaml.safe_dump(said).encode(), strict=True).settings == Settings()


# Commands


def test_the_commands_are_what_their_parsers_and_reports_say_today() -> None:
    assert DOCUMENT.read_text() == document()


def test_every_command_that_prints_json_has_its_fields_on_the_page() -> None:
    printing = {
        command.name
        for command in COMMANDS.values()
        if any("--output" in argument.names for argument in command.arguments)
    }

    assert printing == {*REPORTS}
