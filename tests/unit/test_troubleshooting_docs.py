"""What docs/troubleshooting.md says people see is what the code says."""

import ast
from functools import cache
from pathlib import Path

from sharder.controllers import annotation_warnings as mistakes
from sharder.controllers.movement import failures, overdue
from sharder.core.status import conditions
from sharder.core.status.transitions import Kind
from tests.support.documents import ROOT, code, section

TROUBLESHOOTING = Path("docs/troubleshooting.md")
SOURCES = [path for folder in ("sharder", "webhook") for path in (ROOT / folder).rglob("*.py")]


@cache
def nodes() -> tuple[ast.Constant | ast.Call, ...]:
    """Return every constant and every call in the code."""
    every = (node for source in SOURCES for node in ast.walk(ast.parse(source.read_text())))
    return tuple(node for node in every if isinstance(node, ast.Constant | ast.Call))


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
        for call in nodes()
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "warn"
        for reason in call.args[1:2]
        if isinstance(reason, ast.Constant)
    }

    assert {*code(section(TROUBLESHOOTING, "All Events"))} == reasons | warned
