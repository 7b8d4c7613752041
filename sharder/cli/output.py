"""Print reports: JSON and YAML for programs, tables for people.

A table is never truncated: people copy names from it, and a terminal wraps long lines.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from sharder.cli.options import ListOutput, Output, WideOutput

Report = TypeVar("Report", bound=msgspec.Struct)

_GAP: Final = "   "
"""Between two columns, as in kubectl."""


def show(
    report: Report, form: Output | WideOutput | ListOutput, draw: Callable[[Report], None]
) -> None:
    """Print the report; `draw` prints it for people."""
    match form.value:
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

    def widths(self) -> tuple[int, ...]:
        """Return the width of each column."""
        cells = filter(None, (self.header, *self.rows))
        return tuple(max(map(len, column)) for column in zip(*cells, strict=True))

    def lines(self, widths: Iterable[int]) -> Iterator[str]:
        """Yield the header and the rows; the last column is as long as its text."""
        wanted = tuple(widths)
        for row in filter(None, (self.header, *self.rows)):
            cells = (cell.ljust(width) for cell, width in zip(row, wanted, strict=True))
            yield _GAP.join(cells).rstrip()


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """Return a table without lines; None becomes `-`, and without columns there is no header."""
    return Table(tuple(columns), tuple(tuple(map(_cell, row)) for row in rows))


def write(*parts: Table | str) -> None:
    """Print the parts, each on its own lines."""
    for part in parts:
        lines = part.lines(part.widths()) if isinstance(part, Table) else (_cell(part),)
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _cell(value: object) -> str:
    """Return the text, escaped if it is not printable: names can contain control characters."""
    text = "-" if value is None else str(value)
    return text if text.isprintable() else repr(text)
