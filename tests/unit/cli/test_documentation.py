"""What docs/commands.md says of the commands is so."""

from hack.reference.commands import DOCUMENT, REPORTS, document
from sharder.cli.command import COMMANDS


def test_the_commands_are_what_their_parsers_and_reports_say_today() -> None:
    assert DOCUMENT.read_text() == document()


def test_every_command_that_prints_json_has_its_fields_on_the_page() -> None:
    printing = {
        command.name
        for command in COMMANDS.values()
        if any("--output" in argument.names for argument in command.arguments)
    }

    assert printing == {*REPORTS}
