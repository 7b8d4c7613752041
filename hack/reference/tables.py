"""The fields of schemas as tables in Markdown, one for each object with fields."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hack.reference.schema import Schema

FORMATS: Final = "Formats"
"""The heading of the section about formats, see `formats`."""

ONCE: Final = ("set", "map")
"""The list types without duplicate items."""

REFUSED: Final = "The API server refuses, with these words:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An object with fields; fields of the same type share the section of the first."""

    path: str
    """The path of the first field of this type, such as `spec.resources[]`; empty for the root."""
    schema: Schema
    is_item: bool
    """Whether the description stands above the table, because no other table has it."""


def collect(section: Section, known: list[Section]) -> None:
    """Add a section and the sections below it to `known`, except types that `known` has."""
    if not section.schema.properties or _place(section.schema, known):
        return
    known.append(section)
    for name, each in section.schema.properties.items():
        path = f"{section.path}.{name}".removeprefix(".")
        collect(Section(path=path, schema=each, is_item=False), known)
        if each.items is not None:
            collect(Section(path=f"{path}[]", schema=each.items, is_item=True), known)


def table(section: Section, known: list[Section]) -> Iterator[str]:
    """Yield the lines of a section without its heading; `known` are the targets of its links."""
    schema = section.schema
    if section.is_item:
        yield from (schema.description, "")
    if schema.rules:
        yield from (*refused(schema), "")
    yield from ("| Field | Type | Default | Meaning |", "|---|---|---|---|")
    for name, each in schema.properties.items():
        place = _place(each.items or each, known)
        link = f" [Its fields](#{_anchor(place)})." if place else ""
        yield _row(name, each, link, required=name in schema.required)
    yield ""


def formats(sections: list[Section], definitions: dict[str, Schema]) -> Iterator[str]:
    """Yield the section about the formats of fields: definitions without fields, see `read`."""
    shown = [each for section in sections for each in section.schema.properties.values()]
    names = {each.title for each in shown if _is_format(each)}
    yield from (f"## {FORMATS}", "", "| Format | Type | Meaning |", "|---|---|---|")
    for name in sorted(names):
        schema = definitions[name]
        yield f"| {name} | {_type(schema)} | {schema.description} |"
    yield ""


def refused(schema: Schema) -> list[str]:
    """Return the lines with the messages of an object's validation rules."""
    return [REFUSED, "", *(f"- {rule.message}" for rule in schema.rules)]


def _place(schema: Schema, known: list[Section]) -> str:
    """Return the path of the section with the fields of a schema, or "" if there is none."""
    paths = (s.path for s in known if s.schema.properties == schema.properties)
    return next(paths, "") if schema.properties else ""


def _row(name: str, schema: Schema, link: str, *, required: bool) -> str:
    default = "required" if required else _default(schema)
    messages = [] if schema.properties else [rule.message for rule in schema.rules]
    refused_too = f" Refused with: {'; '.join(messages)}." if messages else ""
    meaning = f"{schema.description}{refused_too}{link}".lstrip()
    return f"| `{name}` | {_type(schema)} | {default} | {meaning} |"


def _default(schema: Schema) -> str:
    """Return the default, or "" for an object with fields, which have their own defaults."""
    if schema.default is None or schema.properties:
        return ""
    return f"`{json.dumps(schema.default)}`"


def _type(schema: Schema) -> str:
    return _kind(schema) + " or null" * schema.nullable


def _kind(schema: Schema) -> str:
    if _is_format(schema):
        return f"[{schema.title}](#{_anchor(FORMATS)})"
    if schema.items is not None:
        keys = " and ".join(f"`{key}`" for key in schema.map_keys)
        once = ["each once by " + keys if keys else "each once"] * (schema.list_type in ONCE)
        return ", ".join([f"list of {_plural(schema.items)}", *once, *_limits(schema)])
    if isinstance(schema.additional_properties, Schema):
        return f"map of {_plural(schema.additional_properties)} by name"
    if schema.enum:
        return ", ".join(f"`{word}`" for word in schema.enum)
    word = schema.format if schema.format == "date-time" else schema.type
    return ", ".join([word, *_limits(schema)])


def _is_format(schema: Schema) -> bool:
    return bool(schema.title) and not schema.properties


def _plural(schema: Schema) -> str:
    limits = ", ".join(_limits(schema))
    return f"{schema.type}s" + (f" ({limits})" if limits else "")


def _limits(schema: Schema) -> Iterator[str]:
    for low, high, unit in (
        (schema.min_items, schema.max_items, " of them"),
        (schema.min_length, schema.max_length, " characters"),
        (schema.minimum, schema.maximum, ""),
    ):
        if low is not None and high is not None:
            yield f"{low} to {high}{unit}"
        elif high is not None:
            yield f"at most {high}{unit}"
        elif low is not None:
            yield "not empty" if unit and low == 1 else f"{low}{unit} or more"
    if schema.pattern:
        yield "matches `" + schema.pattern.replace("|", "\\|") + "`"


def _anchor(heading: str) -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
