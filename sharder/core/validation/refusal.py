"""One refusal of a ControllerRing, in the format of the API server."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Final

from typing_extensions import override

MAX_VALUE_CHARACTERS: Final = 100
"""Maximum characters of a value in a refusal; a longer value is truncated."""


class Fault(Enum):
    """What is wrong with a value, as a constant for programs and in words for people.

    Source: apimachinery v0.36.3, `util/validation/field.ErrorType`.
    """

    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    INVALID = ("FieldValueInvalid", "Invalid value")
    UNSUPPORTED = ("FieldValueNotSupported", "Unsupported value")

    @property
    def cause(self) -> str:
        """The type of the cause in a metav1.Status."""
        return self.value[0]

    @property
    def words(self) -> str:
        """The words between the field and the value."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value in a ring that has to be changed."""

    field: str
    """The path of the value, such as `spec.resources[1]`."""
    fault: Fault
    advice: str
    """Why the value is refused, and what to write instead."""
    value: str | int = ""
    """The value; empty if the advice names it."""

    @override
    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    @property
    def message(self) -> str:
        """Everything except the field."""
        if self.fault is Fault.FORBIDDEN:
            return f"{self.fault.words}: {self.advice}"
        value = json.dumps(self.value, ensure_ascii=False)
        if len(value) > MAX_VALUE_CHARACTERS:
            value = value[:MAX_VALUE_CHARACTERS] + "..."
        return f"{self.fault.words}: {value}: {self.advice}"
