"""Progress and warnings on stderr while a command runs."""

from typing import Final, TextIO

_ERASE: Final = "\r\x1b[K"
"""Back to the begin of the line, and erase it (ECMA-48)."""


class Progress:
    """One changing line on a terminal, and lines that stay."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()

    def show(self, line: str) -> None:
        """Show the progress; the next line replaces it."""
        if self._is_terminal:
            self._stream.write(f"{_ERASE}{_printable(line)}")
            self._stream.flush()

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


def _printable(line: str) -> str:
    return line if line.isprintable() else repr(line)
