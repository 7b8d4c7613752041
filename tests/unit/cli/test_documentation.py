"""What docs/cli.md says of the output is so: the documents are whole, and nothing is left out."""

from pathlib import Path

import msgspec
import pytest

from sharder.cli.app import run_command
from sharder.cli.reports import (
    CertificatesReport,
    CleanupReport,
    Explanation,
    ObjectsReport,
    OperationReport,
    RingsReport,
    ShardsReport,
    VersionReport,
)
from sharder.config import load
from sharder.core.check.report import CheckReport
from sharder.core.movement.step import Action
from sharder.core.preview.report import PlanReport
from tests.support.documents import blocks, section

CLI = Path("docs/cli.md")
SHOWN = [block.text for block in blocks("json") if block.document == CLI]


@pytest.mark.parametrize(
    ("heading", "report"),
    [
        ("sharder check", CheckReport),
        ("sharder rings", RingsReport),
        ("sharder rings cleanup", CleanupReport),
        ("sharder shards", ShardsReport),
        ("sharder objects", ObjectsReport),
        ("sharder explain", Explanation),
        ("sharder plan", PlanReport),
        ("Steering a ring", OperationReport),
        ("sharder certs", CertificatesReport),
        ("sharder version", VersionReport),
    ],
)
def test_a_document_that_is_shown_has_all_fields_and_no_other(
    heading: str, report: type[msgspec.Struct]
) -> None:
    text = section(CLI, heading)
    (shown,) = (block for block in SHOWN if block in text)

    encoded = msgspec.json.encode(msgspec.json.decode(shown, type=report))

    assert msgspec.json.decode(encoded) == msgspec.json.decode(shown)


def test_every_action_is_described() -> None:
    text = section(CLI, "sharder plan")

    assert [action for action in Action if f"| `action` `{action}` |" not in text] == []


def test_the_configuration_that_is_shown_is_valid() -> None:
    (shown,) = (block.text for block in blocks("yaml") if block.document == CLI)

    assert load(shown.encode(), strict=True).meaningless == ()


def test_every_command_has_a_section(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["--help"])
    _, _, listed = capsys.readouterr().out.partition("commands:\n")

    commands = [line.split()[0] for line in listed.splitlines()]

    assert len(commands) >= 5
    assert [command for command in commands if not section(CLI, f"sharder {command}")] == []
