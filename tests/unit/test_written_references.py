"""What `make reference` writes is what schemas and code say today."""

import yaml

from hack.reference import (
    alerts,
    configuration,
    dashboard,
    labels,
    metrics,
    panels,
    readme,
    ring,
    sdk_api,
)
from hack.reference.configuration import SCHEMA, VALUES
from sharder.metrics.registry import PREFIX

ADVICE = yaml.safe_load(metrics.ADVICE.read_text())
OUTCOMES = yaml.safe_load(metrics.OUTCOMES.read_text())


def test_the_readme_of_the_chart_is_what_its_schema_says_today() -> None:
    assert readme.DOCUMENT.read_text() == readme.document(SCHEMA.read_text(), VALUES.read_text())


def test_the_page_of_the_configuration_is_what_the_chart_says_today() -> None:
    document = configuration.document(SCHEMA.read_text(), VALUES.read_text())

    assert configuration.DOCUMENT.read_text() == document


def test_the_reference_of_rings_is_what_the_crd_says_today() -> None:
    assert ring.DOCUMENT.read_text() == ring.document(ring.CRD.read_text())


def test_the_dashboard_is_what_its_panels_say_today() -> None:
    assert dashboard.FILE.read_text() == dashboard.document()


def test_every_panel_says_what_it_shows() -> None:
    found = [panel for shown, _ in panels.ROWS.values() for panel in shown]

    assert not [panel.title for panel in found if not panel.about.endswith(".")]
    assert len({panel.title for panel in found}) == len(found)


def test_the_alerts_are_what_their_rules_say_today() -> None:
    runbooks = yaml.safe_load(alerts.RUNBOOKS.read_text())

    assert alerts.DOCUMENT.read_text() == alerts.document(alerts.RULES.read_text(), runbooks)


def test_the_metrics_are_what_the_service_registers_today() -> None:
    assert metrics.DOCUMENT.read_text() == metrics.document(ADVICE, OUTCOMES)


def test_the_labels_are_what_the_code_names_today() -> None:
    assert labels.DOCUMENT.read_text() == labels.document()


def test_the_api_of_the_sdk_is_what_its_docstrings_say_today() -> None:
    assert sdk_api.DOCUMENT.read_text() == sdk_api.document()


def test_every_metric_of_the_sharder_says_what_to_look_for() -> None:
    own = {each.name.removeprefix(PREFIX) for each in metrics.series() if PREFIX in each.name}

    assert own - ADVICE.keys() == set()


def test_there_is_advice_only_for_metrics_that_there_are() -> None:
    known = {each.name.removeprefix(PREFIX) for each in metrics.series()}

    assert ADVICE.keys() - known == set()
