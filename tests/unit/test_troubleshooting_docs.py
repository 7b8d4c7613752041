"""What docs/troubleshooting.md says people see is what the code says."""

import ast
import re
from functools import cache
from pathlib import Path

from sharder.controllers import annotation_warnings as mistakes
from sharder.controllers import refused_acknowledgements
from sharder.controllers.movement import failures, overdue
from sharder.core.status import conditions
from sharder.core.status.transitions import Kind
from tests.support.documents import DOCUMENTS, ROOT, code, read, section, tables

TROUBLESHOOTING = Path("docs/troubleshooting.md")
SOURCES = [path for folder in ("sharder", "webhook") for path in (ROOT / folder).rglob("*.py")]


def listed(heading: str) -> set[str]:
    """Return the code in the first column of the table under a heading."""
    return {
        code(row[0])[0] for row in tables(section(TROUBLESHOOTING, heading))[0] if code(row[0])
    }


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


def test_every_transition_that_is_a_warning_is_explained() -> None:
    warnings = {kind for kind in Kind if kind.is_warning}

    assert warnings <= {*code(section(TROUBLESHOOTING, "What happened"))}


def test_every_event_is_explained_and_no_other() -> None:
    reasons = {
        failures.WRITE_FAILED,
        failures.LABEL_REMOVED,
        mistakes.MALFORMED,
        refused_acknowledgements.REFUSED,
        overdue.OVERDUE,
        conditions.FAILED,
    }
    warned = {
        reason.value
        for call in nodes()
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "warn"
        for reason in call.args[1:2]
        if isinstance(reason, ast.Constant)
    }

    assert {*code(section(TROUBLESHOOTING, "All Events"))} == reasons | warned


def test_what_a_ring_that_is_not_ready_says_begins_as_in_the_code() -> None:
    begins = listed("A ring is not Ready")

    assert [text for text in begins if not any(said.startswith(text) for said in texts())] == []


def test_what_a_start_says_is_in_the_code() -> None:
    words = [
        word.removeprefix("cannot ")
        for word in listed("A replica does not start, or is not ready")
    ]

    assert len(words) >= 5
    assert [word for word in words if not any(word in said for said in texts())] == []


def test_what_the_log_says_of_certificates_is_in_the_code() -> None:
    said = listed("Certificates")

    assert len(said) == 4
    assert said - texts() == set()


def test_what_a_document_says_that_the_log_says_is_in_the_code() -> None:
    quoted = {
        words
        for document in DOCUMENTS
        for words in re.findall(r"the log says `([^`]+)`", read(document))
    }

    assert quoted
    assert quoted - texts() == set()
