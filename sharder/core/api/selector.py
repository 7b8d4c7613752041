"""Label selectors: what they match, and how they are written in a request."""

from collections.abc import Mapping
from typing import Final

import msgspec

OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""The operators that the API server knows."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One expression of a LabelSelector; one with an unknown operator matches nothing.

    Decoding does not reject such an operator, because a ring that cannot be decoded is unreadable.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Match as the API server does: `NotIn` also matches if the label is missing."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        listed = self.key in labels and labels[self.key] in self.values
        return self.operator in OPERATORS and listed == (self.operator == "In")


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The LabelSelector of metav1; an empty one matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches an object with these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )
