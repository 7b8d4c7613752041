"""Label selectors: what they match, and how they are written in a request."""

from collections.abc import Mapping
from typing import Final

import msgspec

OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""What a requirement may say; the API server knows no other."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One expression of a LabelSelector; one with an unknown operator matches nothing.

    It is not refused here: whoever cannot be understood would be taken for not there.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Judge as the API server does: `NotIn` also matches where the label is missing."""
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
        """Tell whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )
