"""Validate a ControllerRing: refusals and warnings.

A refusal means that the ring cannot work, for a reason that the schema and the rules of the CRD
cannot express; it has the format of the API server.  The webhook rejects such a ring.  If it was
stored anyway, the ring controller uses the same function to report that it is not Ready.  Any
other problem is a warning in the answer to the write (docs/reference.md, "Refused and warned").
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from typing import Final

from typing_extensions import override

from sharder.core.api.meta import LabelSelector
from sharder.core.api.ring import (
    ControllerRing,
    PlacementSpec,
    RebalanceStrategy,
    RingResource,
    StrategyName,
)
from sharder.core.names import is_label_key, is_label_value
from sharder.core.placement.placer import FOLLOWING
from sharder.core.rebalance.measures import AUTO
from sharder.core.ring.build import reason_against

MAX_REFUSALS: Final = 20
"""Maximum refusals in one answer, to bound its size."""

MAX_RESOURCES: Final = 100
"""Maximum resources of a ring, main and controlled ones together.  Each is watched and listed."""

MAX_SELECTED: Final = 10_000
"""Maximum keys and values of a selector; the check of so many takes up to 0.2 s."""

_LABEL: Final = (
    "write at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends;"
    " a key can begin with a DNS domain and '/'"
)


MAX_VALUE_CHARACTERS: Final = 100
"""Maximum characters of a value in a refusal; a longer value is truncated."""


class Fault(StrEnum):
    """What is wrong with a value: the words between the field and the value.

    Source: apimachinery v0.36.3, `util/validation/field.ErrorType`.
    """

    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    INVALID = "Invalid value"
    UNSUPPORTED = "Unsupported value"

    @property
    def cause(self) -> str:
        """The type of the cause in a metav1.Status."""
        is_support = self is Fault.UNSUPPORTED
        return f"FieldValue{'NotSupported' if is_support else self.name.capitalize()}"


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
            return f"{self.fault}: {self.advice}"
        value = json.dumps(self.value, ensure_ascii=False)
        if len(value) > MAX_VALUE_CHARACTERS:
            value = value[:MAX_VALUE_CHARACTERS] + "..."
        return f"{self.fault}: {value}: {self.advice}"


def refusals(ring: ControllerRing, custom: Collection[str]) -> tuple[Refusal, ...]:
    """Return the first `MAX_REFUSALS` refusals of the ring, in the order of its fields.

    `custom` are the names of the installed strategies.
    """
    spec = ring.spec
    listed = len(spec.resources) + sum(len(each.controlled_resources) for each in spec.resources)
    if listed > MAX_RESOURCES:
        # With so many resources, the other checks would take too long.
        advice = f"write at most {MAX_RESOURCES}, controlled ones included, or several rings"
        return (Refusal("spec.resources", Fault.INVALID, advice, listed),)
    found = chain(
        _excluded(spec.resources),
        _main_and_controlled(spec.resources),
        _selector("spec.namespaceSelector", spec.namespace_selector),
        _selector("spec.objectSelector", spec.object_selector),
        _custom(spec.placement, custom),
    )
    return tuple(islice(found, MAX_REFUSALS))


def _excluded(resources: tuple[RingResource, ...]) -> Iterator[Refusal]:
    for index, main in enumerate(resources):
        field = f"spec.resources[{index}]"
        children = enumerate(main.controlled_resources)
        below = ((f"{field}.controlledResources[{n}]", child.id) for n, child in children)
        for path, resource in ((field, main.id), *below):
            if (reason := reason_against(resource)) is not None:
                advice = f"{resource} are never sharded, because {reason}: remove it"
                yield Refusal(path, Fault.FORBIDDEN, advice)


def _main_and_controlled(resources: tuple[RingResource, ...]) -> Iterator[Refusal]:
    """Yield resources that are both; the CRD refuses one that a list has twice."""
    mains = {main.id: f"spec.resources[{index}]" for index, main in enumerate(resources)}
    for index, main in enumerate(resources):
        for place, child in enumerate(main.controlled_resources):
            if child.id in mains:
                field = f"spec.resources[{index}].controlledResources[{place}]"
                advice = (
                    f"{mains[child.id]} lists it as a main resource, and an object is placed"
                    " either by itself or with what controls it: remove one of the two"
                )
                yield Refusal(field, Fault.DUPLICATE, advice, str(child.id))


def _selector(field: str, selector: LabelSelector | None) -> Iterator[Refusal]:
    """Yield keys and values that are invalid for labels: no object can have them."""
    if selector is None:
        return
    labels, expressions = selector.match_labels, selector.match_expressions
    keys = (*labels, *(e.key for e in expressions))
    values = (*labels.values(), *(text for e in expressions for text in e.values))
    if (many := len(keys) + len(values)) > MAX_SELECTED:
        yield Refusal(field, Fault.INVALID, f"write at most {MAX_SELECTED} keys and values", many)
        return
    wrong = [key for key in keys if not is_label_key(key)]
    wrong += [value for value in values if value and not is_label_value(value)]
    for text in wrong:
        yield Refusal(field, Fault.INVALID, _LABEL, text)


def _custom(placement: PlacementSpec, installed: Collection[str]) -> Iterator[Refusal]:
    name = placement.custom
    if placement.strategy is StrategyName.CUSTOM and name not in installed:
        choice = (
            f"write one of {', '.join(sorted(installed))}" if installed else "none is installed"
        )
        advice = (
            f"{choice}; or, where the sharder runs, install a package with this entry point in the"
            " group sharder.placement"
        )
        yield Refusal("spec.placement.custom", Fault.UNSUPPORTED, advice, name)


def warnings(old: ControllerRing | None, new: ControllerRing) -> tuple[str, ...]:
    """Return the warnings, one sentence each; `old` is None except for updates.

    A strategy that sticks moves only objects above a ceiling.  Of declared loads we warn once,
    because only the chart knows who is allowed to declare them.
    """
    strategy, rebalance, none = new.spec.placement.strategy, new.spec.rebalance, RebalanceStrategy
    before = None if old is None else old.spec.placement.strategy
    was_off = old is None or old.spec.rebalance.strategy is none.NONE
    is_auto, field = rebalance.threshold == AUTO, "spec.rebalance.threshold"
    table = {
        f"spec.placement.strategy: {strategy} places most objects on other shards than {before}"
        " did, and moves each after a drain; preview it with `sharder plan`": (
            before not in {None, strategy} and strategy in FOLLOWING
        ),
        f"{field}: with {AUTO} nothing moves when all shards are equally bad, or when there"
        ' are only two: write a number such as "0.15" to move objects in these cases too': (
            rebalance.strategy is none.RESOURCE_BALANCE and is_auto
        ),
        f"{field}: EvenLoad ignores it and uses minGain: remove it": (
            rebalance.strategy is none.EVEN_LOAD and not is_auto
        ),
        "spec.rebalance: a user who can write objects in one namespace can move those of all"
        " others by the loads that they declare: unless you trust them all, set"
        " `steering: Authorized` for the ring in the chart": (
            was_off and rebalance.strategy is not none.NONE
        ),
        "spec.resources: without it, no object is assigned: list resources": (
            not new.spec.resources
        ),
        "spec.shardNamespaces: without it, any user who can create Leases in any namespace"
        " can join the ring: list the namespaces of its shards": not new.spec.shard_namespaces,
    }
    return tuple(text for text, applies in table.items() if applies)
