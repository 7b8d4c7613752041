"""What a ring asks of rebalancing, as numbers."""

import re
from dataclasses import dataclass
from typing import Final

from sharder.api.ring import RebalanceSpec, RebalanceStrategy

AUTO: Final = "Auto"

_NUMBER: Final = re.compile(r"(?=.{1,20}$)[0-9]+(\.[0-9]+)?")
"""As the CRD has it, which limits the length, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When a shard gives objects up, and what that has to bring."""

    strategy: RebalanceStrategy
    resources: tuple[str, ...] = ("cpu", "memory")
    threshold: float | None = None
    """ResourceBalance: the highest fragmentation that is well; None stands for `Auto`."""
    min_gain: float = 0.02
    """ResourceBalance: what the moves that leave one shard at one look gain it together, at least.

    EvenLoad by rates: by how much two shards differ, at least, for a move between them.
    """


def terms_of(spec: RebalanceSpec) -> Terms:
    """Return what the spec asks for.

    Raises:
        ValueError: the threshold, the gain or the resources make no sense; says what does.
    """
    if not spec.resources:
        raise ValueError("rebalance.resources must not be empty: name some, e.g. cpu and memory")
    twice = sorted({name for name in spec.resources if spec.resources.count(name) > 1})
    if twice:
        raise ValueError(f"rebalance.resources names {twice[0]!r} twice: name each once")
    return Terms(
        strategy=spec.strategy,
        resources=spec.resources,
        threshold=_threshold(spec.threshold),
        min_gain=_number("minGain", spec.min_gain, 'a number such as "0.02"'),
    )


def _threshold(text: str) -> float | None:
    return None if text == AUTO else _number("threshold", text, f'{AUTO} or a number, e.g. "0.15"')


def _number(field: str, text: str, wanted: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"rebalance.{field} {text[:20]!r} must be {wanted}, 0 or more")
    return float(text)
