"""Label selectors, and what they match."""

from collections.abc import Mapping
from typing import Final

import msgspec

from sharder.core.names import SYSTEM_NAMESPACE

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with the name of a namespace; the API server sets it."""

OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""The operators that the API server knows."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One expression of a LabelSelector; with an unknown operator, it matches nothing.

    Decoding accepts such an operator, because otherwise the whole ring would be unreadable.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Match like the API server: `NotIn` also matches if the label is missing."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        listed = self.key in labels and labels[self.key] in self.values
        return self.operator in OPERATORS and listed == (self.operator == "In")


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A LabelSelector of metav1; an empty one matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches an object with these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


DEFAULT_NAMESPACES: Final = LabelSelector(
    match_expressions=(
        Requirement(
            key=NAME_LABEL,
            operator="NotIn",
            values=("kube-system", SYSTEM_NAMESPACE),
        ),
    )
)
"""The namespaces of a ring without a selector."""
