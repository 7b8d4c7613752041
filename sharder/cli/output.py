"""How reports are printed: JSON and YAML for programs, tables for people."""

import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

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
