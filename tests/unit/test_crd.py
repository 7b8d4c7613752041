"""The CRD and the structs into which rings are decoded say the same."""

from collections.abc import Iterator, Mapping

import msgspec
import pytest
import yaml

from hack.playground import CRD
from sharder.core.api.ring import RingSpec, RingStatus


class Schema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As much of a JSON schema, or an OpenAPI one, as is compared."""

    properties: dict[str, "Schema"] = {}
    items: "Schema | None" = None
    default: object = None
    enum: tuple[str, ...] = ()
    any_of: tuple["Schema", ...] = ()
    ref: str = msgspec.field(default="", name="$ref")


SERVER_CHECKS = {"operator", "status"}
"""Of requirements and of conditions: the code takes any word."""


def fields(schema: Schema, defs: Mapping[str, Schema], path: str = "") -> Iterator[str]:
    """Yield every field with its default and, if it is one of some words, with these."""
    for name, field in schema.properties.items():
        place = f"{path}.{name}"
        inside = resolved(field, defs)
        words = [] if name in SERVER_CHECKS else sorted(inside.enum)
        # The default of a whole follows from those of its fields, and empty is as good as absent.
        default = "" if inside.properties else field.default or ""
        default = tuple(default) if isinstance(default, list) else default
        yield f"{place} {default} {words}"
        yield from fields(inside, defs, place)
        if inside.items is not None:
            yield from fields(resolved(inside.items, defs), defs, f"{place}[]")


def resolved(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Return what a schema refers to; where it may be null too, the other alternative."""
    one = schema.any_of[0] if schema.any_of else schema
    return defs[one.ref.rpartition("/")[2]] if one.ref else one


@pytest.mark.parametrize(
    ("part", "struct"), [("spec", RingSpec), ("status", RingStatus)], ids=["spec", "status"]
)
def test_the_crd_has_the_fields_defaults_and_words_of_the_code(
    part: str, struct: type[RingSpec] | type[RingStatus]
) -> None:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"][part]
    _, components = msgspec.json.schema_components([struct])
    defs = msgspec.convert(components, dict[str, Schema])

    in_crd = {*fields(msgspec.convert(schema, Schema), {})}

    assert in_crd == {*fields(defs[struct.__name__], defs)}
