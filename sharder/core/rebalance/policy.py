"""The ring's settings: when objects leave a shard for balance, and how much a move has to gain."""

import re
from dataclasses import dataclass
from typing import Final

from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy

AUTO: Final = "Auto"

_NUMBER: Final = re.compile(r"(?=.{1,20}$)[0-9]+(\.[0-9]+)?")
"""As in the CRD, which also limits the length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePolicy:
    """When objects leave a shard, and how much their moves have to gain."""

    strategy: RebalanceStrategy
    resources: tuple[str, ...] = ("cpu", "memory")
    threshold: float | None = None
    """ResourceBalance: the highest accepted fragmentation; None stands for `Auto`."""
    min_gain: float = 0.02
    """ResourceBalance: the minimum gain of all moves from one shard in a run.

    EvenLoad by rates: the minimum difference between two shards for a move between them.
    """


def policy_of(spec: RebalanceSpec) -> RebalancePolicy:
    """Return the policy of the spec.

    Raises:
        ValueError: The threshold, the gain or the resources are invalid.
    """
    if not spec.resources:
        raise ValueError("rebalance.resources must not be empty: name some, e.g. cpu and memory")
    twice = sorted({name for name in spec.resources if spec.resources.count(name) > 1})
    if twice:
        raise ValueError(f"rebalance.resources names {twice[0]!r} twice: name each once")
    return RebalancePolicy(
        strategy=spec.strategy,
        resources=spec.resources,
        threshold=_threshold(spec.threshold),
        min_gain=_decimal("minGain", spec.min_gain, 'a number such as "0.02"'),
    )


def _threshold(text: str) -> float | None:
    return (
        None if text == AUTO else _decimal("threshold", text, f'{AUTO} or a number, e.g. "0.15"')
    )


def _decimal(field: str, text: str, wanted: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"rebalance.{field} {text[:20]!r} must be {wanted}, 0 or more")
    return float(text)
