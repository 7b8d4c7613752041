"""Print reports: JSON and YAML for programs, tables for people.

A cell is never truncated or wrapped, because people copy names from it.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

Report = TypeVar("Report", bound=msgspec.Struct)

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


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as text; None becomes `-`, and without columns there is no header."""
    cells = [cells for row in (columns, *rows) if (cells := [*map(_cell, row)])]
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


def _cell(value: object) -> str:
    """Return the text, escaped if it is not printable: names can contain control characters."""
    text = "-" if value is None else str(value)
    return text if text.isprintable() else repr(text)
