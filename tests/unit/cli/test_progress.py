"""Facts about how progress is shown."""

import io

import pytest
from typing_extensions import override

from sharder.cli.progress import QUIET_SECONDS, Progress, progress
from sharder.sdk.testing.fake_clock import FakeClock


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


async def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    screen, clock = io.StringIO(), FakeClock()
    shown = Progress(screen, clock)

    shown.show("not yet")
    await clock.advance(QUIET_SECONDS)
    shown.show("now")
    shown.show("too early")
    await clock.advance(QUIET_SECONDS)
    shown.show("\x1b[2J")

    assert screen.getvalue() == "now\n'\\x1b[2J'\n"


def test_progress_on_a_terminal_is_one_line_that_changes() -> None:
    screen = Terminal()
    shown = Progress(screen, FakeClock())

    shown.show("3 objects")
    shown.show("2 objects")
    shown.warn("beware")

    line = "\r\x1b[K"
    assert screen.getvalue() == f"{line}3 objects{line}2 objects{line}warning: beware\n"


def test_progress_is_shown_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(FakeClock()) as shown:
        shown.warn("beware of \x1b[2J")

    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "'warning: beware of \\x1b[2J'\n")
