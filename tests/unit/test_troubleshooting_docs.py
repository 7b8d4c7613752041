"""What docs/troubleshooting.md says people see is what the code says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry

from sharder.controllers import conditions, mistakes
from sharder.controllers.movement import failures, overdue
from sharder.metrics import Metrics
from tests.support.documents import ROOT, code, read, section, tables

TROUBLESHOOTING = Path("docs/troubleshooting.md")
TEXT = read(TROUBLESHOOTING)
SOURCES = [path for folder in ("sharder", "webhook") for path in (ROOT / folder).rglob("*.py")]
WARNING = {"warning", "error", "exception", "critical"}
CHART = [*(ROOT / "charts/sharder/templates").iterdir()]


def listed(heading: str) -> dict[str, list[str]]:
    """Return the code in the second column of the table under a heading, by the first."""
    return {code(row[0])[0]: code(row[1]) for row in tables(section(TROUBLESHOOTING, heading))[0]}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def warnings() -> Iterator[str]:
    """Yield every message that the code logs as a warning or worse, without what is put in."""
    for source in SOURCES:
        for call in calls(ast.parse(source.read_text())):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="_log" | "log"), attr=level),
                    args=[ast.Constant(value=str(message)), *_],
                ) if level in WARNING:
                    yield re.sub("%[sd]", "...", message)


def test_every_warning_in_the_log_is_explained_and_no_other() -> None:
    explained = {re.sub("<[^>]*>", "...", text) for text in listed("All warnings in the log")}

    assert explained == {*warnings()}


def test_every_event_is_explained_and_no_other() -> None:
    reasons = {
        failures.WRITE_FAILED,
        failures.LABEL_REMOVED,
        mistakes.MALFORMED,
        overdue.OVERDUE,
        conditions.FAILED,
    }
    warned = {
        reason.value
        for source in SOURCES
        for call in calls(ast.parse(source.read_text()))
        if isinstance(call.func, ast.Attribute) and call.func.attr == "warn"
        for reason in call.args[1:2]
        if isinstance(reason, ast.Constant)
    }

    assert {*listed("All Events")} == reasons | warned


def test_the_conditions_are_those_of_the_code_with_their_reasons() -> None:
    assert listed("All conditions of a ring") == {
        conditions.READY: [conditions.SUCCEEDED, conditions.FAILED],
        conditions.WATCHED: [conditions.ALLOWED, conditions.MISSING],
        conditions.COVERED: [
            conditions.OWNED,
            conditions.UNASSIGNED,
            conditions.NO_SHARDS,
            conditions.OVERDUE,
        ],
        conditions.EXHAUSTED: [conditions.INSUFFICIENT, conditions.SUFFICIENT],
        conditions.PAUSED: [conditions.STOPPED, conditions.ACTIVE],
    }


def test_the_metrics_that_are_named_exist() -> None:
    registry = CollectorRegistry()
    Metrics(registry, version="1", shard_states=())
    series = {family.name for family in registry.collect()}

    named = set(re.findall(r"controller_sharding_\w+", TEXT))

    assert named
    assert {name.removesuffix("_total") for name in named} <= series


def test_what_a_ring_that_is_not_ready_says_begins_as_in_the_code() -> None:
    code_of = "\n".join(source.read_text() for source in SOURCES)

    begins = list(listed("A ring is not Ready"))

    assert [text for text in begins if text not in code_of] == []


def test_what_a_start_says_is_in_the_code() -> None:
    said = "\n".join(source.read_text() for source in SOURCES)
    rows = tables(section(TROUBLESHOOTING, "A replica does not start, or is not ready"))[0]

    words = [word.removeprefix("cannot ") for row in rows for word in code(row[0])]

    assert len(words) == 6
    assert [word for word in words if word not in said] == []


def test_what_the_chart_refuses_is_said_as_it_says_it() -> None:
    said = "\n".join(template.read_text() for template in CHART)

    assert "which are never sharded" in said
    assert "`which are never sharded`" in TEXT
