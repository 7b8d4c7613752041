"""Print reports: JSON and YAML for programs, tables for people.

A cell is never truncated or wrapped, because people copy names from it.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

Report = TypeVar("Report", bound=msgspec.Struct)
Row = TypeVar("Row")
Columns: TypeAlias = Mapping[str, Callable[[Row], object]]
"""The cell of a row in each column, by title."""

_GAP: Final = "   "
"""Between two columns, as in kubectl."""


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


def table(rows: Iterable[Row], columns: Columns[Row]) -> str:
    """Return a table as text; None becomes `-`."""
    return aligned([columns, *([cell(row) for cell in columns.values()] for row in rows)])


def aligned(rows: Iterable[Iterable[object]]) -> str:
    """Return rows of cells as text."""
    cells = [[*map(_cell, row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        _GAP.join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def write(*texts: str) -> None:
    """Print the texts, each on its own lines, and escape what is not printable."""
    for text in texts:
        for line in text.split("\n"):
            sys.stdout.write(f"{_cell(line)}\n")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    print(_cell(f"warning: {text}"), file=sys.stderr)


def _cell(value: object) -> str:
    """Return the text, escaped if it is not printable: names can contain control characters."""
    text = "-" if value is None else str(value)
    return text if text.isprintable() else repr(text)
