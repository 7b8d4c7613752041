"""The parts of JSON that a decoder reads, as a sieve keeps them."""

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import inspect

from sharder.core.api.meta import PartialObject


@dataclass(frozen=True, slots=True)
class Members:
    """An object; only these members are kept."""

    of: dict[bytes, "Shape"]
    """By their quoted names."""
    compared: bool = False
    """Whether other members than the status are kept too, as digests, so that they can be compared
    with those of another object."""


@dataclass(frozen=True, slots=True)
class Entries:
    """An object with any keys, and texts or numbers as values."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    of: "Shape"


Shape: TypeAlias = Members | Entries | Items | None
"""None is a text, a number or a literal."""


def shape_of(type_: inspect.Type) -> Shape:
    """Return the shape that a decoder of this type reads."""
    match type_:
        case inspect.StructType(cls=cls, fields=fields):
            of = {f'"{f.encode_name}"'.encode(): shape_of(f.type) for f in fields}
            return Members(of, compared=cls is PartialObject)
        case inspect.DictType():
            return Entries()
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return Items(shape_of(item))
        case inspect.UnionType(types=types):
            shapes = map(shape_of, types)
            return next((shape for shape in shapes if shape is not None), None)
        case _:
            return None
