"""Generates docs/commands.md from the parsers of the commands and the structs that they print."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import inspect as types

from hack.reference.sdk_api import names_in
from hack.reference.tables import rows
from sharder.cli import app, arguments, reports
from sharder.cli.command import COMMANDS, Command
from sharder.core.api.ring import StrategyName
from sharder.core.diagnosis import finding, installation
from sharder.core.plan.plan import PlanReport
from sharder.core.status.phases import ShardPhase

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs/commands.md"

REPORTS: Final[dict[str, type[msgspec.Struct]]] = {
    "rings": reports.RingsReport,
    "shards": reports.ShardsReport,
    "objects": reports.ObjectsReport,
    "explain": reports.Explanation,
    "certs": installation.CertificatesReport,
    "plan": PlanReport,
    "check": finding.CheckReport,
}
"""What `-o json` prints, by the first command that prints it."""
LINKS: Final[dict[type[Enum], str]] = {
    ShardPhase: "[state of a shard](concepts.md#the-states-of-a-shard)",
    StrategyName: "[strategy](placement.md#the-strategies)",
}
"""Where the values of some enumerations are explained."""

NOTES: Final = Path(__file__).with_name("commands.md")
"""The head of the page, and what follows the help of some commands, under their headings."""

SHARED: Final = "## Shared arguments\n\n"
_SHARED: Final = re.compile(r"^usage: | \[-h\]| \[--kubeconfig FILE\] \[--context NAME\]")
_PLAIN: Final = {
    types.StrType: "text",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
}


def document() -> str:
    """Return the page."""
    head, *parts = NOTES.read_text().split("\n## ")
    notes = dict(part.split("\n\n", 1) for part in parts)
    commands = [COMMANDS[name] for group in app.GROUPS.values() for name in group]
    lines = Counter(_line(each) for command in commands for each in command.arguments)
    shared = [line for line, count in lines.items() if count > 1]
    known = dict[type[Enum], str]()
    sections = [_section(each, shared, known, notes) for each in commands]
    return "\n".join([head, SHARED + "".join(shared), *sections])


def _section(
    command: Command, shared: list[str], known: dict[type[Enum], str], notes: Mapping[str, str]
) -> str:
    *text, examples = (inspect.getdoc(command.run) or "").split("\n\n")
    usage = _SHARED.sub("", " ".join(command.parser("sharder").format_usage().split()))
    own = [line for each in command.arguments if (line := _line(each)) not in shared]
    heading = f"sharder {command.name}"
    fields = _fields(report, "", heading, known) if (report := REPORTS.get(command.name)) else ()
    return "\n".join(
        [
            f"## {heading}\n",
            *(" ".join(each.split()) + "\n" for each in text),
            f"`{usage}`\n",
            f"```sh\n{examples}\n```\n",
            *(["".join(own)] if own else []),
            *([notes[heading].rstrip() + "\n"] if heading in notes else []),
            *(["\n".join(["JSON:\n", *rows(fields), ""])] if report else []),
        ]
    )


def _line(argument: arguments.Argument) -> str:
    metavar = argument.options.get("metavar") or "|".join(argument.options.get("choices", ()))
    names = ", ".join(argument.names) if argument.names[0].startswith("-") else ""
    value = "" if argument.options.get("action") == "store_true" else metavar
    help_text = argument.options.get("help", "")
    if "-o" in argument.names:
        help_text = "Format: table, json, yaml, or where it is listed wide; default: table."
    return f"- `{f'{names} {value}'.strip()}`: {help_text}\n"


def _fields(
    struct: type[msgspec.Struct], path: str, place: str, known: dict[type[Enum], str]
) -> Iterator[tuple[str, str]]:
    """Yield each field with its type and meaning, those of nested structs under their paths.

    `known` has the enumerations whose values were explained, and the headings where.
    """
    about = _documented(struct)
    described = cast("types.StructType", types.type_info(struct))
    for field in described.fields:
        name, nested, enum = f"{path}{field.encode_name}", *_parts(field.type)
        kind, mark, _ = _type(field.type).partition("?")
        values = _values(enum, known.setdefault(enum, place), place) if enum else ""
        shown = "" if values or kind == "text" else f"({kind})"
        meaning = " ".join(filter(None, [about.get(field.name, ""), values]))
        if meaning or nested is None:
            yield name + mark, shown + f": {meaning}" * bool(meaning)
        if nested is not None:
            is_list = isinstance(field.type, types.VarTupleType)
            yield from _fields(nested, f"{name}{'[]' * is_list}.", place, known)


def _values(enum: type[Enum], explained: str, place: str) -> str:
    about = _documented(enum)
    if about and explained != place:
        return f"As for [{explained}](#{explained.replace(' ', '-')})."
    if not about:
        return ""
    return " ".join(
        f"`{v.value}`: {about[v.name]}" if v.name in about else f"`{v.value}`." for v in enum
    )


def _parts(kind: types.Type) -> tuple[type[msgspec.Struct] | None, type[Enum] | None]:
    """Return the struct in a type, and the enumeration."""
    for each in kind.types if isinstance(kind, types.UnionType) else (kind,):
        item = each.item_type if isinstance(each, types.VarTupleType) else each
        if isinstance(item, types.StructType):
            return item.cls, None
        if isinstance(item, types.EnumType) and item.cls not in LINKS:
            return None, item.cls
    return None, None


def _type(kind: types.Type) -> str:
    if isinstance(kind, types.UnionType):
        (given,) = (each for each in kind.types if not isinstance(each, types.NoneType))
        return f"{_type(given)}?"
    if isinstance(kind, types.VarTupleType):
        item = _type(kind.item_type)
        return "list" if item == "text" else f"list of {item}".replace("object", "objects")
    if isinstance(kind, types.EnumType):
        if kind.cls in LINKS:
            return LINKS[kind.cls]
        return ", ".join(f"`{value.value}`" for value in kind.cls)
    if isinstance(kind, types.DictType):
        return f"map of {_type(kind.value_type)}"
    return _PLAIN.get(type(kind), "object")


def _documented(cls: type[msgspec.Struct] | type[Enum]) -> dict[str, str]:
    """Return the texts below the attributes of a class."""
    (found,) = names_in(ast.parse(inspect.getsource(cls)).body)
    known = {each.name: each.doc.replace("None", "null") for each in names_in(found.body)}
    texts = {name: " ".join(doc.split()) for name, doc in known.items() if doc}
    return {name: text.replace(", or null.", ".") for name, text in texts.items()}
