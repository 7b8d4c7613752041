"""Whether the CustomResourceDefinition knows all fields of this release.

The API server silently drops fields that are not in the schema.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import inspect

from sharder.core.api.cluster import Schema
from sharder.core.api.ring import RingSpec, RingStatus
from sharder.core.diagnosis.finding import Finding, Unread, fail, ok, unknown
from sharder.core.plurals import named

CHECK: Final = "crd"

_INSTALL: Final = "install the CRD of this release: run helm upgrade --install"
_PARTS: Final = {"spec": inspect.type_info(RingSpec), "status": inspect.type_info(RingStatus)}


def crd(schema: Schema | Unread | None) -> Finding:
    """Return whether ControllerRings are served with all fields; None: they are not served."""
    if isinstance(schema, Unread):
        return unknown(CHECK, schema)
    if schema is None:
        return fail(CHECK, "the cluster does not serve ControllerRings", _INSTALL)
    missing = missing_in(schema)
    if not missing:
        return ok(CHECK, "ControllerRings are served with all fields of this release")
    return fail(CHECK, f"the CRD is too old: it lacks {named(missing, 5)}", _INSTALL)


def missing_in(schema: Schema) -> list[str]:
    """Return the fields and values of this release that the schema of the ring lacks."""
    return [
        path
        for name, type_ in _PARTS.items()
        for path in _missing(type_, schema.properties.get(name) or Schema(), name)
    ]


def _missing(type_: inspect.Type, schema: Schema, path: str) -> Iterator[str]:
    match type_:
        case inspect.StructType(fields=fields):
            for field in fields:
                below, known = f"{path}.{field.encode_name}", schema.properties
                if field.encode_name not in known:
                    yield below
                else:
                    yield from _missing(field.type, known[field.encode_name], below)
        case inspect.VarTupleType(item_type=item):
            yield from _missing(item, schema.items or Schema(), f"{path}[]")
        case inspect.UnionType(types=types):
            for each in types:
                yield from _missing(each, schema, path)
        case inspect.EnumType(cls=values):
            yield from (f"{path}={each.value}" for each in values if each.value not in schema.enum)
        case _:
            pass
