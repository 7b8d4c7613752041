"""Facts about how progress is shown."""

import io

import pytest
from rich.console import Console

from sharder.cli.progress import QUIET_SECONDS, Progress, progress
from sharder.sdk.testing.fake_clock import FakeClock


async def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    screen, clock = io.StringIO(), FakeClock()
    console = Console(file=screen, width=100)
    with console.status("") as status:
        shown = Progress(console, status, clock)

        shown.show("not yet")
        await clock.advance(QUIET_SECONDS)
        shown.show("now")
        shown.show("too early")
        await clock.advance(QUIET_SECONDS)
        shown.show("\x1b[2J")

    assert screen.getvalue() == "now\n'\\x1b[2J'\n"


def test_progress_on_a_terminal_is_one_line_that_changes() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=100, force_terminal=True)
    with console.status("") as status:
        shown = Progress(console, status, FakeClock())

        shown.show("3 objects")
        shown.show("2 objects")
        status._live.refresh()

    assert "2 objects" in screen.getvalue()


def test_progress_is_shown_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(FakeClock()) as shown:
        shown.warn("beware of \x1b[2J")

    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "'warning: beware of \\x1b[2J'\n")
