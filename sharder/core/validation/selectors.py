"""Validate label selectors as the API server does.

Source: apimachinery v0.36.3, `apis/meta/v1/validation.ValidateLabelSelector`.
"""

from collections.abc import Iterator
from typing import Final

from sharder.core.api.selector import OPERATORS, LabelSelector, Requirement
from sharder.core.names import is_label_key, is_label_value
from sharder.core.validation.refusal import Fault, Refusal, invalid, required

_NAME: Final = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_WITHOUT_VALUES: Final = {
    "In": "Exists",
    "NotIn": "DoesNotExist",
    "Exists": "In",
    "DoesNotExist": "NotIn",
}
"""For an operator that needs values, a similar one that needs none, and vice versa."""


def selector_refusals(field: str, selector: LabelSelector | None) -> Iterator[Refusal]:
    """Yield what is wrong with the selector at `field`."""
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield from key_refusals(f"{field}.matchLabels", key)
        yield from _value_refusals(f"{field}.matchLabels[{key}]", value)
    for index, requirement in enumerate(selector.match_expressions):
        yield from _requirement_refusals(f"{field}.matchExpressions[{index}]", requirement)


def key_refusals(field: str, key: str) -> Iterator[Refusal]:
    """Yield what is wrong with a label key."""
    if not is_label_key(key):
        advice = f"write {_NAME}, or such a name behind a DNS domain and '/': example.com/team"
        yield invalid(field, key, advice)


def _value_refusals(field: str, value: str) -> Iterator[Refusal]:
    if value and not is_label_value(value):
        advice = f"write {_NAME}, or nothing"
        yield invalid(field, value, advice)


def _requirement_refusals(field: str, requirement: Requirement) -> Iterator[Refusal]:
    yield from key_refusals(f"{field}.key", requirement.key)
    operator, values = requirement.operator, requirement.values
    if operator not in OPERATORS:
        advice = f"write one of {', '.join(sorted(OPERATORS))}"
        fault = Fault.UNSUPPORTED
        yield Refusal(field=f"{field}.operator", fault=fault, value=operator, advice=advice)
        return
    instead = _WITHOUT_VALUES[operator]
    if operator in {"Exists", "DoesNotExist"}:
        if values:
            advice = f"{operator} takes no values: remove them, or write the operator {instead}"
            yield invalid(f"{field}.values", values, advice)
        return
    if not values:
        advice = f"{operator} needs at least one: add it, or write the operator {instead}"
        yield required(f"{field}.values", advice)
    for index, value in enumerate(values):
        yield from _value_refusals(f"{field}.values[{index}]", value)
