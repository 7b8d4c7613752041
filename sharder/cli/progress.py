"""Progress and warnings on stderr while a command runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

from sharder.runtime.clock import Clock

QUIET_SECONDS: Final = 30.0
"""Seconds between two lines of progress without a terminal."""


class Progress:
    """One changing line on a terminal, otherwise a new line every 30 s."""

    def __init__(self, console: Console, status: Status, clock: Clock) -> None:
        self._console = console
        self._status = status
        self._clock = clock
        self._next_line = clock.monotonic() + QUIET_SECONDS

    def show(self, line: str) -> None:
        """Show the progress; the next line replaces it."""
        if self._console.is_terminal:
            self._status.update(_printable(line))
        elif self._clock.monotonic() >= self._next_line:
            self._next_line = self._clock.monotonic() + QUIET_SECONDS
            self._print(line)

    def finish(self, line: str) -> None:
        """Print a line that stays."""
        self._print(line)

    def warn(self, warning: str) -> None:
        """Print a warning."""
        self._print(f"warning: {warning}")

    def _print(self, line: str) -> None:
        self._console.print(_printable(line), soft_wrap=True)


@contextmanager
def progress(clock: Clock) -> Iterator[Progress]:
    """Show progress on stderr."""
    console = Console(stderr=True, highlight=False)
    with console.status("") as status:
        yield Progress(console, status, clock)


def _printable(line: str) -> Text:
    return Text(line if line.isprintable() else repr(line))
