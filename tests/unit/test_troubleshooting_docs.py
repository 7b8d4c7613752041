"""What docs/troubleshooting.md says people see is what the code says."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sharder.controllers import annotation_warnings as mistakes
from sharder.controllers.movement.watches import overdue
from sharder.controllers.movement.writes import failures
from sharder.core.status import conditions
from sharder.core.status.transition_messages import Kind
from tests.support.documents import DOCUMENTS, ROOT, code, read, section, tables

TROUBLESHOOTING = Path("docs/troubleshooting.md")
SOURCES = [path for folder in ("sharder", "webhook") for path in (ROOT / folder).rglob("*.py")]
WARNING = {"warning", "error", "exception", "critical"}


def listed(heading: str) -> dict[str, list[str]]:
    """Return the code in the second column of the table under a heading, by the first."""
    return {code(row[0])[0]: code(row[1]) for row in tables(section(TROUBLESHOOTING, heading))[0]}


@cache
def nodes() -> tuple[ast.Constant | ast.Call, ...]:
    """Return every constant and every call in the code."""
    every = (node for source in SOURCES for node in ast.walk(ast.parse(source.read_text())))
    return tuple(node for node in every if isinstance(node, ast.Constant | ast.Call))


@cache
def texts() -> frozenset[str]:
    """Return every text in the code, without what is put into it; none of its comments."""
    constants = (node.value for node in nodes() if isinstance(node, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))


def calls() -> Iterator[ast.Call]:
    """Return every call in the code."""
    return (node for node in nodes() if isinstance(node, ast.Call))


def warnings() -> Iterator[str]:
    """Yield every message that the code logs as a warning or worse, without what is put in."""
    for call in calls():
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="_log" | "log"), attr=level),
                args=[ast.Constant(value=str(message)), *_],
            ) if level in WARNING:
                yield re.sub("%[sd]", "...", message)


def test_every_warning_in_the_log_is_explained_and_no_other() -> None:
    explained = {re.sub("<[^>]*>", "...", text) for text in listed("All warnings in the log")}
    story = {kind.words for kind in Kind if kind.is_warning}

    assert explained == {*warnings()} | story


def test_every_kind_of_transition_is_explained_and_no_other() -> None:
    assert listed("What happened") == {
        kind: ["Warning" if kind.is_warning else "Normal"]
        for kind in Kind
        if kind is not Kind.LEADER
    }
    assert f"`{Kind.LEADER}` on the Lease" in section(TROUBLESHOOTING, "What happened")


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
        for call in calls()
        if isinstance(call.func, ast.Attribute) and call.func.attr == "warn"
        for reason in call.args[1:2]
        if isinstance(reason, ast.Constant)
    }

    assert {*listed("All Events")} == reasons | warned


def test_what_a_ring_that_is_not_ready_says_begins_as_in_the_code() -> None:
    begins = [*listed("A ring is not Ready")]

    assert [text for text in begins if not any(said.startswith(text) for said in texts())] == []


def test_what_a_start_says_is_in_the_code() -> None:
    rows = tables(section(TROUBLESHOOTING, "A replica does not start, or is not ready"))[0]
    words = [word.removeprefix("cannot ") for row in rows for word in code(row[0])]

    assert len(words) >= 5
    assert [word for word in words if not any(word in said for said in texts())] == []


def test_what_a_document_says_that_the_log_says_is_explained() -> None:
    quoted = {
        words
        for document in DOCUMENTS
        for words in re.findall(r"the log says `([^`]+)`", read(document))
    }

    assert quoted
    assert quoted <= {*listed("All warnings in the log")}
