"""The fields of schemas as lists in Markdown, one for each object with fields."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from hack.reference.schema import Schema

FORMATS: Final = "Formats"
"""The heading of the section about formats, see `formats`."""

STANDARD: Final = {
    ("matchLabels", "matchExpressions"): "label selector",
    ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"): (
        "condition"
    ),
    ("nodeAffinity", "podAffinity", "podAntiAffinity"): "Affinity",
    ("group", "resource"): "`group` and `resource`",
}
"""Types by their fields that need no section: those of Kubernetes, and a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An object with fields; fields of the same type share the section of the first."""

    path: str
    """The path of the first field of this type, such as `spec.resources[]`; empty for the root."""
    schema: Schema
    about: str
    """What stands above the list of the fields."""


def collect(section: Section, known: list[Section]) -> None:
    """Add a section and the sections below it to `known`, except types that `known` has."""
    if not section.schema.properties or _is_standard(section.schema):
        return
    if _place(section.schema, known):
        return
    known.append(section)
    for name, each in section.schema.properties.items():
        item = each.items or each
        about = _about(each, known, required=_is_required(section, name))
        collect(Section(path=_path(section, name, each), schema=item, about=about), known)


def table(section: Section, known: list[Section]) -> Iterator[str]:
    """Yield the lines of a section without its heading; `known` are the targets of its links.

    A field with a section of its own is described there.
    """
    paths = {each.path for each in known}
    fields = {
        name: _about(each, known, required=_is_required(section, name))
        for name, each in section.schema.properties.items()
        if _path(section, name, each) not in paths
    }
    about = section.about.removeprefix("(object): ")
    yield from ([about, ""] if about else [])
    yield from rows(fields.items())
    yield from [""] * bool(fields)


def _is_required(section: Section, name: str) -> bool:
    """Return whether users must write the field, which they do not in the status."""
    return name in section.schema.required and not section.path.startswith("status")


def _path(section: Section, name: str, schema: Schema) -> str:
    return f"{section.path}.{name}".removeprefix(".") + "[]" * (schema.items is not None)


def rows(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each name; names in a row of which the same is said share a line."""
    for said, group in groupby(entries, key=lambda entry: entry[1]):
        names = ", ".join(f"`{name}`" for name, _ in group)
        yield f"- {names} {said}".rstrip().replace("` : ", "`: ")


def formats(sections: list[Section], definitions: dict[str, Schema]) -> Iterator[str]:
    """Yield the section about the formats of fields: definitions without fields, see `read`."""
    shown = [each for section in sections for each in section.schema.properties.values()]
    names = sorted({each.title for each in shown if _is_format(each)})
    yield from (f"## {FORMATS}", "")
    yield from (f"- {name}: {definitions[name].description}" for name in names)
    yield ""


def _place(schema: Schema, known: list[Section]) -> str:
    """Return the path of the section with the fields of a schema, or "" if there is none."""
    paths = (s.path for s in known if s.schema.properties == schema.properties)
    return next(paths, "") if schema.properties else ""


def _about(schema: Schema, known: list[Section], *, required: bool) -> str:
    kind, place = _type(schema), _place(schema.items or schema, known)
    kind = f"[{kind}](#{_anchor(place)})" if place else kind
    default = "required" if required else _default(schema)
    is_plain = kind in {"boolean", "integer", "string"} or _is_format(schema)
    if default.startswith("default") and is_plain:
        kind = ""
    facts = ", ".join(filter(None, [kind, default]))
    return f"({facts}): {schema.description}" if facts else f": {schema.description}"


def _default(schema: Schema) -> str:
    """Return the default, or "" if it is empty or the fields have their own."""
    if schema.default in (None, "", [], {}) or schema.properties:
        return ""
    return f"default `{json.dumps(schema.default)}`"


def _type(schema: Schema) -> str:
    return _kind(schema) + " or null" * schema.nullable


def _kind(schema: Schema) -> str:
    if _is_standard(schema):
        return STANDARD[tuple(schema.properties)]
    if _is_format(schema):
        return f"[{schema.title}](#{_anchor(FORMATS)})"
    if schema.items is not None:
        once = ["each once"] * (schema.list_type == "set")
        return ", ".join([f"list of {_plural(schema.items)}", *once, *_limits(schema)])
    if isinstance(schema.additional_properties, Schema):
        return f"map of {_plural(schema.additional_properties)}"
    if schema.enum:
        return ", ".join(f"`{word}`" for word in schema.enum)
    word = schema.format if schema.format == "date-time" else schema.type
    return ", ".join([word, *_limits(schema)])


def _is_standard(schema: Schema) -> bool:
    return tuple(schema.properties) in STANDARD


def _is_format(schema: Schema) -> bool:
    return bool(schema.title) and not schema.properties


def _plural(schema: Schema) -> str:
    known = STANDARD.get(tuple(schema.properties), schema.type)
    return known if known.endswith("`") else f"{known}s"


def _limits(schema: Schema) -> Iterator[str]:
    for low, high, unit in (
        (schema.min_items, schema.max_items, " of them"),
        (schema.minimum, schema.maximum, ""),
    ):
        if low is not None and high is not None:
            yield f"{low} to {high}{unit}"
        elif high is not None:
            yield f"at most {high}{unit}"
        elif low is not None:
            yield f"{low}{unit} or more"


def _anchor(heading: str) -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
