"""Validate `spec.rebalance` and `spec.movement` of a ring."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from sharder.core.api.ring import (
    MovementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    RingSpec,
)
from sharder.core.durations import parse_duration
from sharder.core.placement.strategies.registry import STICKING
from sharder.core.rebalance.policy import AUTO, policy_of
from sharder.core.validation.refusal import Refusal, duplicate, invalid, required
from sharder.core.validation.selectors import key_refusals

MAX_RESOURCES: Final = 10
"""Maximum resources that are compared, as in the CRD."""

MIN_INTERVAL: Final = timedelta(seconds=1)
"""As in the CRD.  Shorter intervals cost too much: a run compares all objects of the ring."""

_MAX_LENGTH: Final = 20
"""Maximum characters of a duration, as in the CRD."""


def rebalance_refusals(spec: RingSpec) -> Iterator[Refusal]:
    """Yield what is wrong with `spec.rebalance`."""
    field, rebalance = "spec.rebalance", spec.rebalance
    if (
        rebalance.strategy is not RebalanceStrategy.NONE
        and spec.placement.strategy not in STICKING
    ):
        advice = (
            f"the strategy {spec.placement.strategy} places objects by their hash, which"
            f" rebalancing would fight: write {RebalanceStrategy.NONE}, or a placement strategy"
            f" that sticks ({', '.join(STICKING)})"
        )
        yield invalid(f"{field}.strategy", rebalance.strategy, advice)
    yield from _resources(f"{field}.resources", rebalance.resources)
    yield from _numbers(field, rebalance)
    yield from _interval(f"{field}.interval", rebalance.interval)
    if rebalance.max_moves_per_interval < 1:
        advice = f"write 1 or more; to move nothing, write strategy: {RebalanceStrategy.NONE}"
        yield invalid(f"{field}.maxMovesPerInterval", rebalance.max_moves_per_interval, advice)


def movement_refusals(movement: MovementSpec) -> Iterator[Refusal]:
    """Yield what is wrong with `spec.movement`."""
    for name, number in (
        ("maxConcurrentDrains", movement.max_concurrent_drains),
        ("maxMovesPerMinute", movement.max_moves_per_minute),
    ):
        if number < 0:
            advice = "write 1 or more, or 0 for no limit; to move nothing, write paused: true"
            yield invalid(f"spec.movement.{name}", number, advice)
    timeout = _duration(movement.drain_timeout)
    if timeout is None or timeout < timedelta():
        advice = "write a duration such as 10m, or 0s for none"
        yield invalid("spec.movement.drainTimeout", movement.drain_timeout, advice)


def _resources(field: str, resources: tuple[str, ...]) -> Iterator[Refusal]:
    if not resources:
        advice = "rebalancing compares resources: write at least one, such as cpu"
        yield required(field, advice)
    if len(resources) > MAX_RESOURCES:
        advice = f"too many: write at most {MAX_RESOURCES}"
        yield invalid(field, len(resources), advice)
    for index, name in enumerate(resources[:MAX_RESOURCES]):
        place = f"{field}[{index}]"
        yield from key_refusals(place, name)
        if name in resources[:index]:
            advice = "it is listed already: remove this one"
            yield duplicate(place, name, advice)


def _numbers(field: str, rebalance: RebalanceSpec) -> Iterator[Refusal]:
    if not _is_understood(RebalanceSpec(threshold=rebalance.threshold)):
        advice = f'write {AUTO}, or a number of 0 or more in quotes, such as "0.15"'
        yield invalid(f"{field}.threshold", rebalance.threshold, advice)
    if not _is_understood(RebalanceSpec(min_gain=rebalance.min_gain)):
        advice = 'write a number of 0 or more in quotes, such as "0.02"'
        yield invalid(f"{field}.minGain", rebalance.min_gain, advice)


def _interval(field: str, text: str) -> Iterator[Refusal]:
    interval = _duration(text)
    if interval is None or interval < MIN_INTERVAL:
        yield invalid(field, text, "write a duration of 1s or more, such as 5m")


def _is_understood(rebalance: RebalanceSpec) -> bool:
    try:
        policy_of(rebalance)
    except ValueError:
        return False
    return True


def _duration(text: str) -> timedelta | None:
    """Return the duration, None if `text` is invalid."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        return None
