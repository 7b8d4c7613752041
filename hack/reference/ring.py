"""Generates docs/reference.md from the schema of the ControllerRing in the chart's CRD."""

from pathlib import Path
from typing import Final

import msgspec
import yaml

from hack.reference.schema import Schema
from hack.reference.tables import Section, collect, table

ROOT: Final = Path(__file__).parents[2]
CRD: Final = ROOT / "charts/sharder/templates/crd.yaml"
DOCUMENT: Final = ROOT / "docs/reference.md"
CHECKS: Final = Path(__file__).with_name("ring.md")
"""The end of the page: the conditions, and what the sharder checks."""

HEAD: Final = """\
# Reference of the ControllerRing

<!-- Written by `make reference` from charts/sharder/templates/crd.yaml and \
hack/reference/ring.md: change these. -->

Look up a field of `{api}`; on a cluster use `kubectl explain {plural} --recursive`.

A ControllerRing is cluster-scoped.
A field without default or *required* can be omitted, and is absent then.
Durations are written as in Go, such as `90s` or `1h30m`; durations and numbers have at most 20 \
characters.
The API server refuses a name of more than 63 characters, because it is part of label keys, and \
fields that the strategy does not use; its message says what to change.
The sharder [checks more](#refused-and-warned).
"""


def document(crd: str) -> str:
    """Return the page, from the YAML of the CustomResourceDefinition.

    Raises:
        ValueError: The CustomResourceDefinition has several versions.
    """
    spec = yaml.safe_load(crd)["spec"]
    (version,) = spec["versions"]
    schema = msgspec.convert(version["schema"]["openAPIV3Schema"], Schema)
    sections = list[Section]()
    for part in ("spec", "status"):
        found = schema.properties[part]
        collect(Section(path=part, schema=found, about=found.description), sections)
    head = HEAD.format(
        api=f"{spec['group']}/{version['name']}",
        plural=spec["names"]["plural"],
    )
    pages = [line for each in sections for line in (*_heading(each), *table(each, sections))]
    always, wide = (
        " ".join(
            each["name"].upper()
            for each in version["additionalPrinterColumns"]
            if bool(each.get("priority")) == is_wide
        )
        for is_wide in (False, True)
    )
    shown = (
        f"`kubectl get {spec['names']['shortNames'][0]}` shows {always}, with `-o wide` {wide}."
    )
    return "\n".join([head, *pages, shown, "", CHECKS.read_text()])


def _heading(section: Section) -> tuple[str, str]:
    return "##" + "#" * ("." in section.path) + f" {section.path}", ""
