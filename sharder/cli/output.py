"""Print reports: JSON and YAML for programs, tables for people.

A cell is never truncated, because people copy names from it.  Text, and a last column of text, is
wrapped at the width of the terminal.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, TypeVar

import msgspec

Report = TypeVar("Report", bound=msgspec.Struct)

_GAP: Final = 3
"""Spaces between two columns, as in kubectl."""
_WIDTH: Final = 80
"""Columns without a terminal."""
_NARROWEST: Final = 30
"""Columns of a text at least; a longer line is left to the terminal."""


def show(report: Report, form: str, draw: Callable[[Report], None]) -> None:
    """Print the report; `draw` prints it for people."""
    match form:
        case "json":
            text = msgspec.json.format(msgspec.json.encode(report)).decode()
            sys.stdout.write(f"{text}\n")
        case "yaml":
            sys.stdout.write(msgspec.yaml.encode(report).decode())
        case _:
            draw(report)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; an empty header is not printed."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_wide: bool = False
    """Whether no text is wrapped."""

    def lines(self, width: int) -> Iterator[str]:
        """Yield the header and the rows; columns stand closer if they fit only then."""
        cells = [*filter(None, (self.header, *self.rows))]
        *widths, widest = (max(map(len, column)) for column in zip(*cells, strict=True))
        is_close = not self.is_wide and 0 < sum(widths) + widest + _GAP * len(
            widths
        ) - width <= len(widths)
        gap = " " * (_GAP - is_close)
        before = sum(widths) + len(gap) * len(widths)
        for *first, last in cells:
            start = "".join(f"{cell:{w}}{gap}" for cell, w in zip(first, widths, strict=True))
            parts = [last] if self.is_wide else _wrapped(last, max(_NARROWEST, width - before))
            for part in parts:
                yield f"{start}{part}".rstrip()
                start = " " * before


def table(
    columns: Iterable[str], rows: Iterable[Iterable[object]], *, is_wide: bool = False
) -> Table:
    """Return a table without lines; None becomes `-`, and without columns there is no header."""
    return Table(tuple(columns), tuple(tuple(map(_cell, row)) for row in rows), is_wide)


def write(*parts: Table | str) -> None:
    """Print the parts, each on its own lines."""
    width = _columns()
    for part in parts:
        if isinstance(part, Table):
            lines = [*part.lines(width)] if part.header or part.rows else []
        else:
            first, *more = _wrapped(_cell(part), width) or [""]
            lines = [first, *(f"  {line}" for line in _wrapped(" ".join(more), width - 2))]
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _wrapped(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text] if text else []
    return wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return _WIDTH


def _cell(value: object) -> str:
    """Return the text, escaped if it is not printable: names can contain control characters."""
    text = "-" if value is None else str(value)
    return text if text.isprintable() else repr(text)
