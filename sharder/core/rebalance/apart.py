"""Balance each namespace by its own changes only.

The users of a namespace decide which loads its objects have and where they are pinned, and this
must not move objects of other namespaces.  The first run balances all namespaces together.  After
that, each namespace that changes is judged by itself: with its own objects as they are now, and
those of the other namespaces as they were.  A move is made only if it also helps with all loads as
they are now, so that two namespaces do not use the same room.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sharder.core.names import ShardName
from sharder.core.rebalance.changes import Settled, namespace_of
from sharder.core.rebalance.equal_objects import STRIDE, Admits, Steps
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.run import (
    Outcome,
    Run,
    measure_of,
    outcome_of,
    run_over,
    sides_of,
    summary_of,
)
from sharder.core.rebalance.search import Move, Search, ShardSide

JUDGED = "has no reason to move: only changes in its own namespace count"

_Sums: TypeAlias = dict[ShardName, dict[str, float]]
"""Loads by shard and resource."""


class Apart(NamedTuple):
    """The result for all namespaces."""

    outcome: Outcome
    unfinished: frozenset[str]
    """Namespaces without budget, or with moves that do not help at present."""


def apart(
    policy: RebalancePolicy,
    shards: Iterable[LoadedShard],
    objects: Sequence[LoadedObject],
    *,
    settled: Settled,
    groups: Iterable[Set[str]],
    budget: int,
    admits: Admits,
    begun: Set[tuple[str, ShardName]],
) -> Steps[Apart]:
    """Return the moves of groups of namespaces, each group judged by itself.

    Args:
        policy: The ring's settings.
        shards: The available shards, at least two.
        objects: The objects of all namespaces.
        settled: The result of the previous run.
        groups: Sets of namespaces that are judged together; the first ones get the budget first.
        budget: The maximum number of moves.
        admits: As for `rebalancing`.
        begun: Pairs of a namespace and a shard that its objects left in the previous run.
    """
    views = _NamespaceViews(policy, shards, settled)
    yield from views.weigh(objects)
    moves: list[Move] = []
    unfinished: set[str] = set()
    is_spent = False
    for group in groups:
        if is_spent:
            unfinished |= group
            continue
        beside = yield from views.beside(group)
        yield
        sides = yield from sides_of(beside, views.objects_of(group))
        run = yield from run_over(
            policy,
            sides,
            budget=budget - len(moves),
            admits=admits,
            begun={shard for namespace, shard in begun if namespace in group},
        )
        is_spent = run.summary.is_spent
        made = [move for move in run.moves if views.makes(move)]
        if is_spent or len(made) < len(run.moves):
            unfinished |= group
        moves += made
    run = views.run(tuple(moves), admits, budget=budget, is_spent=is_spent)
    return Apart(outcome_of(run), frozenset(unfinished))


class _NamespaceViews:
    """The shards as they are now, and as each namespace sees them."""

    def __init__(
        self, policy: RebalancePolicy, shards: Iterable[LoadedShard], settled: Settled
    ) -> None:
        self._policy = policy
        self._shards = tuple(shards)
        self._loads = settled.loads
        self._objects: dict[str, dict[str, LoadedObject]] = {}

    def weigh(self, objects: Sequence[LoadedObject]) -> Steps[None]:
        """Add the loads of the objects."""
        for number, obj in enumerate(objects, start=1):
            if not number % STRIDE:
                yield
            self._objects.setdefault(namespace_of(obj.key), {})[obj.key] = obj
        self._counted = yield from self._counting_for(self._loads)
        kept = (obj if obj.kept else obj._replace(kept=JUDGED) for obj in objects)
        self._now: Mapping[ShardName, ShardSide] = yield from sides_of(self._shards, kept)
        self._measure = measure_of(self._policy, self._now.values())
        self._before = {
            name: self._measure.of(side.shard, side.load) for name, side in self._now.items()
        }

    def objects_of(self, group: Set[str]) -> list[LoadedObject]:
        """Return the objects of the given namespaces."""
        return [obj for name in group for obj in self._objects.get(name, {}).values()]

    def beside(self, group: Set[str]) -> Steps[list[LoadedShard]]:
        """Return the shards with the loads of all other namespaces."""
        own = yield from self._counting_for(group)
        found = []
        for shard in self._shards:
            mine = own.get(shard.name, {})
            base = {
                resource: max(0.0, amount - mine.get(resource, 0.0))
                for resource, amount in self._counted.get(shard.name, {}).items()
            }
            found.append(replace(shard, base=base, room=self._now[shard.name].room))
        return found

    def makes(self, move: Move) -> bool:
        """Make a move if it helps with all loads as they are now; return whether it does."""
        source, target = self._now[move.source], self._now[move.target]
        load = self._objects[namespace_of(move.key)][move.key].load
        relief = {name: -amount for name, amount in load.items()}
        of = self._measure.of
        left = of(source.shard, source.load), of(source.shard, source.load, relief)
        got = of(target.shard, target.load), of(target.shard, target.load, load)
        if target.lacks(load) or not self._measure.helps(left, got):
            return False
        source.change(relief, -1)
        target.change(load, 1)
        return True

    def run(self, moves: tuple[Move, ...], admits: Admits, *, budget: int, is_spent: bool) -> Run:
        """Return the run that made these moves."""
        search = Search(self._measure, self._now, admits)
        summary = summary_of(self._policy, search, self._before, budget=budget, is_spent=is_spent)
        return Run(summary=summary, search=search, moves=moves)

    def _counting_for(self, namespaces: Iterable[str]) -> Steps[_Sums]:
        """Return the loads of the given namespaces as other namespaces see them."""
        found: _Sums = {}
        for number, namespace in enumerate(namespaces, start=1):
            if not number % STRIDE:
                yield
            for shard, load in self._loads.get(namespace, {}).items():
                of_shard = found.setdefault(shard, {})
                for resource, amount in load.items():
                    of_shard[resource] = of_shard.get(resource, 0.0) + amount
        return found
