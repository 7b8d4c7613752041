"""Print reports: JSON and YAML for programs, tables for people."""

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sharder.cli.options import Output

Report = TypeVar("Report", bound=msgspec.Struct)


def show(report: Report, form: Output, draw: Callable[[Report], None]) -> None:
    """Print the report; `draw` prints it as a table."""
    match form:
        case Output.JSON:
            text = msgspec.json.format(msgspec.json.encode(report)).decode()
            sys.stdout.write(f"{text}\n")
        case Output.YAML:
            sys.stdout.write(msgspec.yaml.encode(report).decode())
        case Output.TABLE:
            draw(report)


_PIPE_WIDTH = 10_000
"""Columns in a pipe: nothing is wrapped or cut, so that grep and awk work."""


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """Return a table without lines; None becomes `-`, and without columns there is no header."""
    headers = list(columns)
    made = Table(
        *headers, box=None, show_header=bool(headers), pad_edge=False, padding=(0, 3, 0, 0)
    )
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def write(*parts: Table | str) -> None:
    """Print each part on lines of its own."""
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
    for part in parts:
        console.print(part if isinstance(part, Table) else _cell(part), soft_wrap=True)


def _cell(value: object) -> Text:
    """Escape what is not printable: names can hold control characters of the terminal."""
    text = "-" if value is None else str(value)
    return Text(text if text.isprintable() else repr(text))
