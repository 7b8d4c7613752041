"""What `make reference` writes is what schemas and code say today."""

import json

import pytest
import yaml

from hack.reference import alerts, dashboard, labels, metrics, panels, readme
from hack.reference.configuration import SCHEMA, VALUES
from sharder.metrics.registry import PREFIX
from tests.support.documents import code, tables

ADVICE = yaml.safe_load(metrics.ADVICE.read_text())
OUTCOMES = yaml.safe_load(metrics.OUTCOMES.read_text())


def test_the_readme_of_the_chart_is_what_its_schema_says_today() -> None:
    assert readme.DOCUMENT.read_text() == readme.document(SCHEMA.read_text(), VALUES.read_text())


def test_the_readme_of_the_chart_has_every_value() -> None:
    (rows, *_) = tables(readme.DOCUMENT.read_text())[1:]

    assert {code(row[0])[0] for row in rows} >= yaml.safe_load(VALUES.read_text()).keys()


def test_the_dashboard_is_what_its_panels_say_today() -> None:
    assert dashboard.FILE.read_text() == dashboard.document()


def test_no_panel_covers_another() -> None:
    fields = set[tuple[int, int]]()
    for panel in json.loads(dashboard.document())["panels"]:
        place = panel["gridPos"]
        here = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not fields & here
        assert max(x for x, _ in here) < dashboard.WIDTH
        fields |= here


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


def test_every_metric_of_the_sharder_says_what_to_look_for() -> None:
    own = {each.name.removeprefix(PREFIX) for each in metrics.series() if PREFIX in each.name}

    assert own - ADVICE.keys() == set()


def test_there_is_advice_only_for_metrics_that_there_are() -> None:
    known = {each.name.removeprefix(PREFIX) for each in metrics.series()}

    assert ADVICE.keys() - known == set()


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("assignments_total", ("controllerring", "group", "resource")),
        ("shard_objects", ("namespace", "shard", "controllerring")),
        ("resync_duration_seconds", ("controllerring",)),
        ("leader", ()),
    ],
)
def test_the_labels_of_a_metric_are_told(name: str, labels: tuple[str, ...]) -> None:
    (found,) = (each for each in metrics.series() if each.name == PREFIX + name)

    assert found.labels == labels
