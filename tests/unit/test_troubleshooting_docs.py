"""What docs/troubleshooting.md says people see is what the code says."""

import ast
from collections.abc import Iterator
from pathlib import Path

from sharder.controllers import annotation_warnings as mistakes
from sharder.controllers.movement import failures, overdue
from sharder.core.status import conditions
from sharder.core.status.phases import Kind
from tests.support.documents import ROOT, code, section

TROUBLESHOOTING = Path("docs/troubleshooting.md")
SOURCES = [path for folder in ("sharder", "webhook") for path in (ROOT / folder).rglob("*.py")]


def calls() -> Iterator[ast.Call]:
    """Yield every call in the code that may warn."""
    texts = (source.read_text() for source in SOURCES)
    for node in (node for text in texts if ".tell(" in text for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Call):
            yield node


def test_every_transition_that_is_a_warning_is_explained() -> None:
    warnings = {kind for kind in Kind if kind.is_warning}

    assert warnings <= {*code(section(TROUBLESHOOTING, "What happened"))}


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
        if isinstance(call.func, ast.Attribute) and call.func.attr == "tell"
        for reason in call.args[1:2]
        if isinstance(reason, ast.Constant)
    }

    assert {*code(section(TROUBLESHOOTING, "All Events"))} == reasons | warned
