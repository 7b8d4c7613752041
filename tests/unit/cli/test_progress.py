"""Facts about how progress is shown."""

import io

from typing_extensions import override

from sharder.cli.progress import Progress


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_only_lines_that_stay_are_printed() -> None:
    screen = io.StringIO()
    shown = Progress(screen)

    shown.show("3 objects")
    shown.warn("beware of \x1b[2J")

    assert screen.getvalue() == "'warning: beware of \\x1b[2J'\n"


def test_progress_on_a_terminal_is_one_line_that_changes() -> None:
    screen = Terminal()
    shown = Progress(screen)

    shown.show("3 objects")
    shown.show("2 objects")
    shown.warn("beware")

    line = "\r\x1b[K"
    assert screen.getvalue() == f"{line}3 objects{line}2 objects{line}warning: beware\n"
