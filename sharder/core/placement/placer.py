"""Place one object: hard filters → the strategy → one shard, or no shard and a reason.

The filters run in a fixed order, and each gives a reason if it rejects a shard
(docs/placement.md, "Who may have an object").

While a new revision of the controller is rolled out, moving objects go to its shards: the old
shards stop one after the other, and objects would move again and again (docs/operate.md, "Roll
out").
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sharder.core.api.ring import StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.ceilings import Ceilings
from sharder.core.placement.counts import NO_COUNTS, Counts
from sharder.core.placement.demand import Demand, exclusion
from sharder.core.placement.strategies.custom import Custom
from sharder.core.placement.strategies.hashing import BoundedLoad, ConsistentHash, Rendezvous
from sharder.core.placement.strategies.least_loaded import LeastLoaded
from sharder.core.placement.strategies.spread import Spread
from sharder.core.placement.strategy import Choice, Layout, Strategy

STRATEGIES: Final[Mapping[StrategyName, type[Strategy]]] = {
    StrategyName.CONSISTENT_HASH: ConsistentHash,
    StrategyName.RENDEZVOUS: Rendezvous,
    StrategyName.BOUNDED_LOAD: BoundedLoad,
    StrategyName.SPREAD: Spread,
    StrategyName.LEAST_LOADED: LeastLoaded,
    StrategyName.CUSTOM: Custom,
}

FOLLOWING: Final = tuple(name for name, strategy in STRATEGIES.items() if not strategy.sticks)


def built(layout: Layout, before: Strategy | None = None) -> Strategy:
    """Return the strategy for a layout; `before` is the strategy of the previous layout."""
    if layout.spec.strategy is StrategyName.CONSISTENT_HASH:
        return ConsistentHash(layout, before.ring if isinstance(before, ConsistentHash) else None)
    return STRATEGIES[layout.spec.strategy](layout)


def basis_of(layout: Layout) -> object:
    """Return all that the place of an object depends on, but for the object and the counts."""
    return layout if STRATEGIES[layout.spec.strategy].sticks else layout.essence


MAX_NAMED = 3
"""Maximum shards that a reason names."""

_ANY = Demand("", -1)
"""A new object that asks for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A choice, with a reason or remark for every available shard."""

    choice: Choice
    rejected: dict[ShardName, str]
    """Why a hard filter rejected a shard."""
    remarks: dict[ShardName, str]
    """The arguments for or against each remaining shard."""


class Placer:
    """Places objects on the shards of one layout; an immutable value."""

    __slots__ = ("_limited", "_usual", "layout", "strategy")

    def __init__(self, layout: Layout, strategy: Strategy | None = None) -> None:
        """Use a `strategy` that was built from an equal layout, or build one."""
        self.layout = layout
        self.strategy = strategy or built(layout)
        self._usual = self._ready_first(layout.open)
        ceilings = self.ceilings(NO_COUNTS, _ANY)
        self._limited = self.sticks and any(map(ceilings.bind, layout.available))

    @property
    def sticks(self) -> bool:
        """Whether an object stays on its shard while the shard can keep it."""
        return self.strategy.sticks

    def place(self, demand: Demand, counts: Counts) -> Choice:
        """Return the object's shard by the counts of all objects, or why none is feasible."""
        choice = None
        for candidates in self._feasible(demand, counts):
            choice = self._choose(demand, candidates, counts)
            if choice.shard is not None:
                break
        return choice or Choice(None, self._why_none_feasible(demand, counts))

    def objection(self, demand: Demand, shard: Shard, counts: Counts) -> str | None:
        """Return why an available shard cannot get the object, None if it can."""
        ceilings = self.ceilings(counts, demand)
        why = self._why_not(shard, demand, ceilings)
        if why is not None or not self.sticks:
            return why
        fitting = [s for s in self.layout.open if self._objection(s, demand) is None]
        candidates = ceilings.with_room(fitting, demand)
        return self.strategy.declines(demand, candidates, counts)(shard)

    def goal_of(self, demand: Demand) -> ShardName | None:
        """Return the shard to which the object is pinned, None if the pin does not count.

        If the pinned shard is closed but not evacuated, a new object waits for it.  An object that
        had a shard goes to another one instead.
        """
        pin = demand.pin
        if pin is None or pin not in self.layout.names or pin in self.layout.evacuating:
            return None
        is_new = demand.current is None and not demand.moves
        waits = is_new or demand.current == pin
        return pin if waits or pin not in self.layout.closed else None

    def keeps(self, demand: Demand) -> bool:
        """Return whether the object can stay on its shard, even if the shard is full."""
        here = demand.current
        return here is not None and self._objection(self.layout.by_name[here], demand) is None

    def is_misplaced(self, demand: Demand) -> bool:
        """Return whether labels of the object exclude its shard, or pin it while it has none."""
        here, goal = demand.current, self.goal_of(demand)
        if here is None or goal not in {None, here}:
            return goal is not None
        return exclusion(self.layout.by_name[here], demand) is not None

    def explain(self, demand: Demand, counts: Counts) -> Explanation:
        """Return the choice, with a reason or remark for every available shard."""
        choice = self.place(demand, counts)
        candidates: Sequence[Shard] = ()
        for candidates in self._feasible(demand, counts):
            if choice.shard in {shard.name for shard in candidates}:
                break
        return Explanation(
            choice=choice,
            rejected=self._rejected(demand, counts, candidates),
            remarks=self.strategy.remarks(demand, candidates, counts) if candidates else {},
        )

    def score(self, key: str, shard: ShardName) -> float:
        """Return the score of a shard for a key; objects with the lowest score leave it first."""
        return self.layout.ranking.score(key, self.layout.by_name[shard])

    def highest(self, key: str) -> ShardName | None:
        """Return the available shard with the highest score for a key, None if there is none."""
        shards = self.layout.available
        return self.layout.highest(key, shards).name if shards else None

    def ceilings(self, counts: Counts, placing: Demand | None = None) -> Ceilings:
        """Return the ceilings of the shards by these counts, for an object that is placed."""
        return Ceilings(self.layout, self.strategy, counts, placing)

    def has_room(self, counts: Counts) -> bool:
        """Return whether a shard has room for an object that asks for nothing.

        The result is also True if all shards are closed, because then room is not the problem.
        """
        ceilings = self.ceilings(counts, _ANY)
        return not self.layout.open or any(
            ceilings.objection(shard, pinned=False) is None for shard in self.layout.open
        )

    def _feasible(self, demand: Demand, counts: Counts) -> Iterable[Sequence[Shard]]:
        """Return lists of candidates to try in turn; none if no shard has room or fits."""
        rounds = self._usual
        if not self._asks_for_nothing(demand):
            fitting = [s for s in self.layout.available if self._objection(s, demand) is None]
            rounds = self._ready_first(fitting, demand.current)
        if not self._limited:
            return rounds
        ceilings = self.ceilings(counts, demand)
        return filter(None, (ceilings.with_room(shards, demand) for shards in rounds))

    def _ready_first(
        self, shards: Sequence[Shard], current: ShardName | None = None
    ) -> Sequence[Sequence[Shard]]:
        """Return the shards to try first, and then all shards.

        A shard that does not renew its Lease in time might be about to die, so strategies that
        stick use it last.
        """
        ready = [s for s in shards if s.ready or s.name == current]
        rounds = [ready, shards] if self.sticks and len(ready) < len(shards) else [shards]
        return [each for each in rounds if each]

    def _asks_for_nothing(self, demand: Demand) -> bool:
        """Return whether no filter depends on the object's labels or its shard."""
        if demand.pin or demand.region or demand.zone or demand.pool:
            return False
        # With a strategy that follows, the object's shard matters only if it is cordoned.
        here = demand.current
        return here is None or (not self.sticks and here not in self.layout.closed)

    def _rejected(
        self, demand: Demand, counts: Counts, candidates: Sequence[Shard]
    ) -> dict[ShardName, str]:
        ceilings = self.ceilings(counts, demand)
        rejected: dict[ShardName, str] = {}
        chosen_from = {shard.name for shard in candidates}
        for shard in self.layout.available:
            if (why := self._why_not(shard, demand, ceilings)) is not None:
                rejected[shard.name] = why
            elif shard.name not in chosen_from:
                rejected[shard.name] = "it does not renew its Lease in time, others do"
        return rejected

    def _objection(self, shard: Shard, demand: Demand) -> str | None:
        """Return why the shard cannot have the object, regardless of counts; None if it can."""
        if shard.evacuating:
            return "it is being evacuated"
        if shard.cordoned and shard.name != demand.current:
            return "it is cordoned"
        goal = self.goal_of(demand)
        if goal is not None and shard.name != goal:
            return f"the object is pinned to {goal}"
        why = exclusion(shard, demand)
        if why is not None:
            return why
        spec = self.layout.spec
        if spec.require_pool and not shard.pool:
            return "it has no pool"
        if spec.require_zone and not shard.zone:
            return "it has no zone"
        return None

    def _why_not(self, shard: Shard, demand: Demand, ceilings: Ceilings) -> str | None:
        """Return why a filter excludes the shard, by the counts too."""
        why = self._objection(shard, demand)
        if why is not None or not self.sticks or shard.name == demand.current:
            return why
        return ceilings.objection(shard, pinned=demand.pin == shard.name)

    def _choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return one of the candidates, or a reason why there is none.

        A moving object goes to a shard of the newest revision if one can have it.
        """
        newest = self.layout.newest if demand.moves else None
        if newest is not None and (new := [s for s in candidates if s.revision == newest]):
            choice = self.strategy.choose(demand, new, counts)
            if choice.shard is not None:
                return choice
            # They need not have the zones of a group alone.
            objection = self.strategy.declines(demand, candidates, counts)
            for shard in sorted(new, key=lambda each: counts.on(each.name)):
                if objection(shard) is None:
                    return Choice(shard.name)
        return self.strategy.choose(demand, candidates, counts)

    def _why_none_feasible(self, demand: Demand, counts: Counts) -> str:
        """Return why no shard can have the object, in one sentence."""
        if not self.layout.available:
            return "no shard is available"
        rejected = self._rejected(demand, counts, ())
        if len(rejected) <= MAX_NAMED:
            each = [f"{shard}: {why}" for shard, why in sorted(rejected.items())]
        else:
            shards = Counter(rejected.values())
            each = [
                f"{many} shard{'' if many == 1 else 's'}: {why}"
                for why, many in shards.most_common(MAX_NAMED)
            ]
        return "no shard can take the object: " + "; ".join(each)
