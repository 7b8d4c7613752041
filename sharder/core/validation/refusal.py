"""One thing that is wrong with a ControllerRing, said as the API server says such things."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from typing_extensions import override

MAX_VALUE_CHARACTERS: Final = 100
"""Of a value that is named; who wrote a longer one finds it by its beginning."""


class Fault(Enum):
    """What is wrong with a value: as a word for programs, and for people.

    Source: apimachinery v0.36.3, `util/validation/field.ErrorType`.
    """

    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    INVALID = ("FieldValueInvalid", "Invalid value")
    REQUIRED = ("FieldValueRequired", "Required value")
    UNSUPPORTED = ("FieldValueNotSupported", "Unsupported value")

    @property
    def cause(self) -> str:
        """The type of the cause in a Status."""
        return self.value[0]

    @property
    def words(self) -> str:
        """What stands between field and value."""
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A value of a ring that cannot stand."""

    field: str
    """Its path, such as `spec.resources[1]`."""
    fault: Fault
    value: str | int | Sequence[str] = ""
    """What stands there; nothing where that is missing, or the advice says it."""
    advice: str
    """Why not, and what to write instead."""

    @override
    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    @property
    def message(self) -> str:
        """All but the field."""
        if self.fault in {Fault.REQUIRED, Fault.FORBIDDEN}:
            return f"{self.fault.words}: {self.advice}"
        value = json.dumps(self.value, ensure_ascii=False)
        if len(value) > MAX_VALUE_CHARACTERS:
            value = value[:MAX_VALUE_CHARACTERS] + "..."
        return f"{self.fault.words}: {value}: {self.advice}"
