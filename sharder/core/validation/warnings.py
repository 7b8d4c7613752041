"""Warnings about a ControllerRing that works, but might not do what its author expects."""

from collections.abc import Iterator
from itertools import chain

from sharder.core.api.ring import (
    ControllerRing,
    RebalanceSpec,
    RebalanceStrategy,
)
from sharder.core.placement.strategies.registry import FOLLOWING
from sharder.core.rebalance.measures import AUTO


def warnings(old: ControllerRing | None, new: ControllerRing) -> tuple[str, ...]:
    """Return the warnings, one sentence each; `old` is None except for updates."""
    found = chain(
        _movement(old, new),
        _threshold(new.spec.rebalance),
        _anyone_declares(old, new),
        _any_namespace(new),
    )
    return tuple(found)


def _any_namespace(ring: ControllerRing) -> Iterator[str]:
    if not ring.spec.shard_namespaces:
        yield (
            "spec.shardNamespaces: without it, any user who can create Leases in any namespace"
            " can join the ring: list the namespaces of its shards"
        )


def _threshold(rebalance: RebalanceSpec) -> Iterator[str]:
    field = "spec.rebalance.threshold"
    by_fragmentation = rebalance.strategy is RebalanceStrategy.RESOURCE_BALANCE
    if by_fragmentation and rebalance.threshold == AUTO:
        yield (
            f"{field}: with {AUTO} nothing moves when all shards are equally bad, or when there"
            ' are only two: write a number such as "0.15" to move objects in these cases too'
        )
    if rebalance.strategy is RebalanceStrategy.EVEN_LOAD and rebalance.threshold != AUTO:
        yield f"{field}: EvenLoad ignores it and uses minGain: remove it"


def _anyone_declares(old: ControllerRing | None, new: ControllerRing) -> Iterator[str]:
    """Warn once, because only the chart knows who is allowed to declare loads."""
    none = RebalanceStrategy.NONE
    was = none if old is None else old.spec.rebalance.strategy
    if was is none and new.spec.rebalance.strategy is not none:
        yield (
            "spec.rebalance: a user who can write objects in one namespace can move those of all"
            " others by the loads that they declare: unless you trust them all, set"
            " `steering: Authorized` for the ring in the chart"
        )


def _movement(old: ControllerRing | None, new: ControllerRing) -> Iterator[str]:
    """Warn of a strategy that follows; one that sticks moves only objects above a ceiling."""
    before = None if old is None else old.spec.placement.strategy
    after = new.spec.placement.strategy
    if before not in {None, after} and after in FOLLOWING:
        yield (
            f"spec.placement.strategy: {after} places most objects on other shards than {before}"
            " did, and moves each after a drain; preview it with `sharder plan`"
        )
