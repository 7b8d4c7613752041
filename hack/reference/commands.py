"""Generates docs/commands.md from the parsers of the commands and the structs that they print."""

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import inspect as types

from hack.reference.sdk_api import names_in, row
from sharder.cli import app, reports
from sharder.cli.command import COMMANDS, CONTEXT, KUBECONFIG, Argument, Command
from sharder.core.diagnosis.check import CheckReport
from sharder.core.preview.report import PlanReport
from sharder.core.status.phases import ShardPhase

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs/commands.md"

REPORTS: Final[dict[str, type[msgspec.Struct]]] = {
    "rings": reports.RingsReport,
    "shards": reports.ShardsReport,
    "objects": reports.ObjectsReport,
    "explain": reports.Explanation,
    "certs": reports.CertificatesReport,
    "plan": PlanReport,
    "check": CheckReport,
}
"""What `-o json` prints, by the first command that prints it."""
PHASE: Final = "[state of a shard](concepts.md#the-states-of-a-shard)"

HEAD: Final = """\
# Commands

<!-- Written by `make reference` from the commands in sharder/cli and the structs that they \
print: change these. -->

Look up an option, or a field of `-o json` and `-o yaml`; [cli.md](cli.md) says which command \
serves what.
Fields in `[]` belong to each item of a list.
"""
SHARED: Final = """\
## Options of all commands

Commands that read a cluster have the first two; `-o` differs in its formats.

| Option | Meaning |
|---|---|
"""
_SHARED: Final = re.compile(r"^usage: | \[-h\]| \[--kubeconfig FILE\] \[--context NAME\]")
_PLAIN: Final = {
    types.StrType: "text",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "true or false",
    types.NoneType: "null",
}


def document() -> str:
    """Return the page."""
    form = next(each for each in COMMANDS["rings"].arguments if each.names[0] == "-o")
    shared = SHARED + "".join(map(_row, (KUBECONFIG, CONTEXT, form)))
    known = [name for group in app.GROUPS.values() for name in group]
    return "\n".join([HEAD, shared, *(_section(COMMANDS[name]) for name in known)])


def _section(command: Command) -> str:
    *text, examples = (inspect.getdoc(command.run) or "").split("\n\n")
    usage = _SHARED.sub("", " ".join(command.parser("sharder").format_usage().split()))
    own = [each for each in command.arguments if each not in (KUBECONFIG, CONTEXT)]
    rows = "".join(_row(each) for each in own if each.names[0] != "-o")
    return "\n".join(
        [
            f"## sharder {command.name}\n",
            *(" ".join(each.split()) + "\n" for each in text),
            f"```text\n{usage}\n```\n",
            f"```sh\n{examples}\n```\n",
            *(["| Argument | Meaning |\n|---|---|\n" + rows] if rows else []),
            *_fields_of(command),
        ]
    )


def _row(argument: Argument) -> str:
    metavar = argument.options.get("metavar") or "|".join(argument.options.get("choices", ()))
    names = ", ".join(argument.names) if argument.names[0].startswith("-") else ""
    value = "" if argument.options.get("action") == "store_true" else metavar
    return row(f"{names} {value}".strip(), argument.options.get("help", "")) + "\n"


def _fields_of(command: Command) -> Iterator[str]:
    if report := REPORTS.get(command.name):
        yield "| Field | Type | Meaning |\n|---|---|---|\n" + "".join(_fields(report, ""))


def _fields(struct: type[msgspec.Struct], path: str) -> Iterator[str]:
    """Yield a row for each field, those of nested structs under their paths."""
    about = _documented(struct)
    described = cast("types.StructType", types.type_info(struct))
    for field in described.fields:
        name, nested, values = f"{path}{field.encode_name}", *_parts(field.type)
        meaning = " ".join(filter(None, [about.get(field.name, ""), *values]))
        yield f"| `{name}` | {_type(field.type)} | {meaning} |\n"
        if nested is not None:
            is_list = isinstance(field.type, types.VarTupleType)
            yield from _fields(nested, f"{name}{'[]' * is_list}.")


def _parts(kind: types.Type) -> tuple[type[msgspec.Struct] | None, list[str]]:
    """Return the struct in a type, and the values with a meaning."""
    for each in kind.types if isinstance(kind, types.UnionType) else (kind,):
        item = each.item_type if isinstance(each, types.VarTupleType) else each
        if isinstance(item, types.StructType):
            return item.cls, []
        if isinstance(item, types.EnumType) and item.cls is not ShardPhase:
            about = _documented(item.cls)
            return None, [
                f"`{value.value}`: {about[value.name]}"
                for value in item.cls
                if value.name in about
            ]
    return None, []


def _type(kind: types.Type) -> str:
    if isinstance(kind, types.UnionType):
        return " or ".join(map(_type, kind.types))
    if isinstance(kind, types.VarTupleType):
        return f"list of {_type(kind.item_type)}".replace("object", "objects")
    if isinstance(kind, types.EnumType):
        if kind.cls is ShardPhase:
            return PHASE
        return ", ".join(f"`{value.value}`" for value in kind.cls)
    if isinstance(kind, types.DictType):
        return f"map of {_type(kind.value_type)}"
    return _PLAIN.get(type(kind), "object")


def _documented(cls: type[msgspec.Struct] | type[Enum]) -> dict[str, str]:
    """Return the texts below the attributes of a class."""
    (found,) = names_in(ast.parse(inspect.getsource(cls)).body)
    known = {each.name: each.doc.replace("None", "null") for each in names_in(found.body)}
    return {name: " ".join(doc.split()) for name, doc in known.items() if doc}
