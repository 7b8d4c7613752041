"""Progress and warnings on stderr while a command runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from sharder.runtime.clock import Clock

QUIET_SECONDS: Final = 30.0
"""Seconds between two lines of progress without a terminal."""

_ERASE: Final = "\r\x1b[K"
"""Back to the begin of the line, and erase it (ECMA-48)."""


class Progress:
    """One changing line on a terminal, otherwise a new line every 30 s."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._next_line = clock.monotonic() + QUIET_SECONDS

    def show(self, line: str) -> None:
        """Show the progress; the next line replaces it."""
        if self._is_terminal:
            self._stream.write(f"{_ERASE}{_printable(line)}")
            self._stream.flush()
        elif self._clock.monotonic() >= self._next_line:
            self._next_line = self._clock.monotonic() + QUIET_SECONDS
            self.finish(line)

    def finish(self, line: str) -> None:
        """Print a line that stays."""
        self.erase()
        self._stream.write(f"{_printable(line)}\n")
        self._stream.flush()

    def warn(self, warning: str) -> None:
        """Print a warning."""
        self.finish(f"warning: {warning}")

    def erase(self) -> None:
        """Erase the line of progress."""
        if self._is_terminal:
            self._stream.write(_ERASE)


@contextmanager
def progress(clock: Clock) -> Iterator[Progress]:
    """Show progress on stderr."""
    shown = Progress(sys.stderr, clock)
    try:
        yield shown
    finally:
        shown.erase()


def _printable(line: str) -> str:
    return line if line.isprintable() else repr(line)
