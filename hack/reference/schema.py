"""Types of schemas, both of a CustomResourceDefinition and of a chart's values."""

from collections.abc import Mapping
from typing import Final

import msgspec

from sharder.core.api.meta import Json

_DEFINITIONS: Final = "#/definitions/"


class Schema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of a schema that the reference pages show.

    `default` is None both for the default null and without a default.
    """

    type: str = ""
    nullable: bool = False
    format: str = ""
    title: str = ""
    """The name of the definition that a field refers to, such as `duration`; see `read`."""
    description: str = ""
    default: object = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    required: tuple[str, ...] = ()
    properties: dict[str, "Schema"] = {}
    items: "Schema | None" = None
    additional_properties: "Schema | bool" = True
    list_type: str = msgspec.field(default="", name="x-kubernetes-list-type")
    definitions: dict[str, "Schema"] = {}


def read(text: str) -> Schema:
    """Read a JSON schema; replace each reference by its definition, as in OpenAPI of CRDs.

    If a description stands beside a reference, the definition is a format with an entry of its
    own in the page, and its name becomes the title.
    """
    root = msgspec.json.decode(text)
    return msgspec.convert(_plain(root, root.get("definitions", {})), Schema)


def _plain(node: Json, definitions: Mapping[str, Json]) -> Json:
    if isinstance(node, list):
        return [_plain(each, definitions) for each in node]
    if not isinstance(node, Mapping):
        return node
    plain = {name: _plain(each, definitions) for name, each in node.items()}
    kind, reference = node.get("type"), node.get("$ref")
    if isinstance(kind, list):
        (plain["type"],) = (word for word in kind if word != "null")
        plain["nullable"] = "null" in kind
    if isinstance(reference, str):
        name = reference.removeprefix(_DEFINITIONS)
        definition = _plain(definitions[name], definitions)
        title = {"title": name} if "description" in node else {}
        return {**definition, **title, **plain} if isinstance(definition, Mapping) else definition
    return plain


def with_defaults(schema: Schema, value: Json) -> Schema:
    """Return the schema with the default `value`; the fields get their defaults from a mapping.

    A field with a default is not required.
    """
    given = value if isinstance(value, Mapping) else {}
    return msgspec.structs.replace(
        schema,
        default=value,
        required=tuple(name for name in schema.required if name not in given),
        properties={
            name: with_defaults(each, given[name]) if name in given else each
            for name, each in schema.properties.items()
        },
    )
