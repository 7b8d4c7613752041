"""Warnings about a ControllerRing that works, but might not do what its author expects."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from sharder.core.api.ring import (
    ControllerRing,
    PlacementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    StrategyName,
)
from sharder.core.names import GroupResource, ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.placement.demand import Demand, identity_of
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout
from sharder.core.rebalance.policy import AUTO

MAX_WARNINGS: Final = 10
"""Maximum warnings in one answer: the API server truncates them after 4,096 characters."""

SAMPLE: Final = 1_000
"""Maximum keys that are placed to estimate the effect of a change of the strategy."""

MAX_PAIRS: Final = 50_000
"""Maximum pairs of a key and a shard in that estimate, which takes 0.3s: with more shards, fewer
keys are placed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the cluster; if a fact is not known, there is no warning about it."""

    unknown: Collection[GroupResource] = ()
    """Resources of the ring that the API server does not serve."""
    namespaces: int | None = None
    """How many namespaces the ring selects."""
    layout: Layout | None = None
    """The ring's shards; None for a new ring."""


def warnings(old: ControllerRing | None, new: ControllerRing, facts: Facts) -> tuple[str, ...]:
    """Return the first `MAX_WARNINGS` warnings, one sentence each.

    `old` is None except for updates.
    """
    found = chain(
        _movement(old, new, facts.layout),
        _threshold(new.spec.rebalance),
        _anyone_declares(old, new, facts.namespaces),
        _no_namespace(facts.namespaces),
        _any_namespace(new),
        _unknown(new, facts.unknown),
    )
    return tuple(islice(found, MAX_WARNINGS))


def _unknown(ring: ControllerRing, unknown: Collection[GroupResource]) -> Iterator[str]:
    for index, main in enumerate(ring.spec.resources):
        field = f"spec.resources[{index}]"
        listed = {field: main.id} | {
            f"{field}.controlledResources[{place}]": child.id
            for place, child in enumerate(main.controlled_resources)
        }
        for where, resource in listed.items():
            if resource in unknown:
                yield (
                    f"{where}: the API server does not serve {resource}:"
                    " install its CRD, or correct the name"
                )


def _no_namespace(namespaces: int | None) -> Iterator[str]:
    if namespaces == 0:
        yield (
            "spec.namespaceSelector: it selects no existing namespace, so no object in a"
            " namespace is sharded: label one, or correct the selector"
        )


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


def _anyone_declares(
    old: ControllerRing | None, new: ControllerRing, namespaces: int | None
) -> Iterator[str]:
    """Warn once, because only the chart knows who is allowed to declare loads."""
    none = RebalanceStrategy.NONE
    was = none if old is None else old.spec.rebalance.strategy
    if was is none and new.spec.rebalance.strategy is not none and (namespaces or 0) > 1:
        yield (
            "spec.rebalance: a user who can write objects in one namespace can move those of"
            f" all {namespaces} by the loads that they declare: unless you trust them all, set"
            " `steering: Authorized` for the ring in the chart"
        )


def _movement(
    old: ControllerRing | None, new: ControllerRing, layout: Layout | None
) -> Iterator[str]:
    if old is None or layout is None:
        return
    before, after = old.spec.placement, new.spec.placement
    if before.strategy is after.strategy:
        return
    part = _moving(layout, before, after)
    if part > 0.5:
        yield (
            f"spec.placement.strategy: from {before.strategy} to {after.strategy} moves about"
            f" {part:.0%} of the objects, each after a drain; preview it with `sharder plan`"
        )


def _moving(layout: Layout, before: PlacementSpec, after: PlacementSpec) -> float:
    """Return the fraction of a sample that would move; 0 for a strategy that sticks.

    A strategy that sticks moves only objects above a ceiling, which are not estimated.  The labels
    of objects, such as pins, are not known and are ignored.  An installed function is not called,
    because it can take any time, and expects calls from one thread only.
    """
    will = Placer(replace(layout, spec=after))
    if will.sticks or before.strategy is StrategyName.CUSTOM or not layout.available:
        return 0.0
    keys = _keys(len(layout.available))
    was = _owners(Placer(replace(layout, spec=before)), keys)
    wanted = _owners(will, keys)
    return sum(wanted[key] != owner for key, owner in was.items()) / len(keys)


def _keys(shards: int) -> tuple[str, ...]:
    return tuple(f"/Sample/default/sample-{n}" for n in range(min(SAMPLE, MAX_PAIRS // shards)))


def _owners(placer: Placer, keys: tuple[str, ...]) -> dict[str, ShardName]:
    """Return the shard of each key, as if the objects were created one after the other."""
    tally = Tally()
    owners: dict[str, ShardName] = {}
    for key in keys:
        identity = identity_of(key)
        shard = placer.place(Demand(key, identity), tally).shard
        if shard is not None:
            owners[key] = shard
            tally.assume(Reservation(identity, Entry(shard)))
    return owners
