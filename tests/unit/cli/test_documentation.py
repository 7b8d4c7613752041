"""What docs/commands.md says of the commands is so."""

from pathlib import Path

from hack.reference.commands import DOCUMENT, REPORTS, document
from sharder.cli.command import COMMANDS
from sharder.config import load
from tests.support.documents import blocks


def test_the_commands_are_what_their_parsers_and_reports_say_today() -> None:
    assert DOCUMENT.read_text() == document()


def test_every_command_that_prints_json_has_its_fields_on_the_page() -> None:
    printing = {
        command.name
        for command in COMMANDS.values()
        if any("--output" in argument.names for argument in command.arguments)
    }

    assert printing == {*REPORTS}


def test_the_configuration_that_is_shown_is_valid() -> None:
    (shown,) = (b.text for b in blocks("yaml") if b.document == Path("docs/commands.md"))

    assert load(shown.encode(), strict=True).meaningless == ()
