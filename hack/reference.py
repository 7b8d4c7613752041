"""docs/reference.md, written from the schema of the ControllerRing in the chart's CRD.

`python -m hack.reference` prints it, `--write` writes it.
"""

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import yaml

ROOT: Final = Path(__file__).parents[1]
CRD: Final = ROOT / "charts/sharder/templates/crd.yaml"
DOCUMENT: Final = ROOT / "docs/reference.md"

ONCE: Final = ("set", "map")
"""Types of lists in which nothing may stand twice."""

HEAD: Final = """\
# Reference of the ControllerRing

<!-- Written by `make reference` from charts/sharder/templates/crd.yaml: change that. -->

Every field of `{api}`, as `kubectl explain {plural} --recursive` shows it on a cluster.
[protocol.md](protocol.md#controllerring) says what follows from the fields, and \
[placement.md](placement.md#the-fields), [rebalancing.md](rebalancing.md) and \
[operate.md](operate.md#move-more-slowly) how to choose them.

A ControllerRing is cluster-scoped, and `kubectl get {short}` lists all.
Where nothing stands under *Default* a field may be left out, and is absent then.
What the API server refuses stands here; the sharder [judges more](protocol.md#refused-and-warned).

{refused}
"""
REFUSED: Final = "The API server refuses, with these words:"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server refuses, in CEL, and what it says then."""

    rule: str
    message: str


class Schema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As much of an OpenAPI schema as people want to know; `default` may be null or absent."""

    type: str = ""
    format: str = ""
    description: str = ""
    default: object = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    pattern: str = ""
    required: tuple[str, ...] = ()
    properties: dict[str, "Schema"] = {}
    items: "Schema | None" = None
    additional_properties: "Schema | None" = None
    map_keys: tuple[str, ...] = msgspec.field(default=(), name="x-kubernetes-list-map-keys")
    list_type: str = msgspec.field(default="", name="x-kubernetes-list-type")
    rules: tuple[Rule, ...] = msgspec.field(default=(), name="x-kubernetes-validations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An object with fields; `path` is that of the first field that has them."""

    path: str
    schema: Schema
    is_item: bool
    """Whether it stands in a list, which has another description."""


def document(crd: str) -> str:
    """Return the reference of the one kind that a CustomResourceDefinition in YAML defines.

    Raises:
        ValueError: it has several versions.
    """
    spec = yaml.safe_load(crd)["spec"]
    (version,) = spec["versions"]
    schema = msgspec.convert(version["schema"]["openAPIV3Schema"], Schema)
    sections = list[Section]()
    for part in ("spec", "status"):
        collect(Section(path=part, schema=schema.properties[part], is_item=True), sections)
    head = HEAD.format(
        api=f"{spec['group']}/{version['name']}",
        plural=spec["names"]["plural"],
        short=spec["names"]["shortNames"][0],
        refused="\n".join(_refused(schema)),
    )
    pages = [line for each in sections for line in _rendered(each, sections)]
    columns = [
        f"| `{column['name'].upper()}` | `{column['jsonPath'].removeprefix('.')}` |"
        for column in version["additionalPrinterColumns"]
    ]
    shown = ["## Columns of kubectl get", "", "| Column | Field |", "|---|---|", *columns]
    return "\n".join([head, *pages, *shown]) + "\n"


def collect(section: Section, known: list[Section]) -> None:
    """Add a section and those of what is in it, but none whose fields are known already."""
    if not section.schema.properties or _place(section.schema, known):
        return
    known.append(section)
    for name, each in section.schema.properties.items():
        path = f"{section.path}.{name}"
        collect(Section(path=path, schema=each, is_item=False), known)
        if each.items is not None:
            collect(Section(path=f"{path}[]", schema=each.items, is_item=True), known)


def _place(schema: Schema, known: list[Section]) -> str:
    """Return the path under which these fields stand, nothing if nowhere."""
    found = (s.path for s in known if s.schema.properties == schema.properties)
    return next(found, "") if schema.properties else ""


def _rendered(section: Section, known: list[Section]) -> Iterator[str]:
    schema = section.schema
    yield from ("##" + "#" * ("." in section.path) + f" {section.path}", "")
    if section.is_item:
        yield from (schema.description, "")
    if schema.rules:
        yield from (*_refused(schema), "")
    yield from ("| Field | Type | Default | Meaning |", "|---|---|---|---|")
    for name, each in schema.properties.items():
        place = _place(each.items or each, known)
        link = f" [Its fields](#{_anchor(place)})." if place else ""
        yield _row(name, each, link, required=name in schema.required)
    yield ""


def _refused(schema: Schema) -> list[str]:
    return [REFUSED, "", *(f"- {rule.message}" for rule in schema.rules)]


def _row(name: str, schema: Schema, link: str, *, required: bool) -> str:
    default = "required" if required else _default(schema)
    told = [] if schema.properties else [rule.message for rule in schema.rules]
    refused = f" Refused with: {'; '.join(told)}." if told else ""
    meaning = f"{schema.description}{refused}{link}".lstrip()
    return f"| `{name}` | {_type(schema)} | {default} | {meaning} |"


def _default(schema: Schema) -> str:
    """Return the default; that of an object follows from those of its fields."""
    if schema.default is None or schema.properties:
        return ""
    return f"`{json.dumps(schema.default)}`"


def _type(schema: Schema) -> str:
    if schema.items is not None:
        keys = " and ".join(f"`{key}`" for key in schema.map_keys)
        once = ["each once by " + keys if keys else "each once"] * (schema.list_type in ONCE)
        return ", ".join([f"list of {_plural(schema.items)}", *once, *_limits(schema)])
    if schema.additional_properties is not None:
        return f"map of {_plural(schema.additional_properties)} by name"
    if schema.enum:
        return ", ".join(f"`{word}`" for word in schema.enum)
    word = schema.format if schema.format == "date-time" else schema.type
    return ", ".join([word, *_limits(schema)])


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
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main() -> None:
    """Print or write the document."""
    parser = argparse.ArgumentParser(prog="python -m hack.reference", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    text = document(CRD.read_text())
    if parser.parse_args().write:
        DOCUMENT.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
