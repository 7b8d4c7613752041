"""While a new revision of the controller is rolled out: what moves goes there at once.

Shards leave one after the other then, and objects would move again and again (docs/operate.md,
"Roll out").
"""

from collections.abc import Sequence

from sharder.placement.counts import Counts
from sharder.placement.demand import Demand
from sharder.placement.shards import Shard
from sharder.placement.strategy import Choice, Layout, Strategy, no_objection


def choose(
    layout: Layout,
    strategy: Strategy,
    demand: Demand,
    candidates: Sequence[Shard],
    counts: Counts,
) -> Choice:
    """Return one of the candidates, or why it is none.

    An object that moves gets a shard of the newest revision if one of them may have it; of a
    strategy that sticks the one with the fewest objects.
    """
    newest = layout.newest if demand.moves else None
    preferred = [] if newest is None else [s for s in candidates if s.revision == newest]
    if preferred and not strategy.sticks:
        return strategy.choose(demand, preferred, counts)
    objection = strategy.declines(demand, candidates, counts) if preferred else no_objection
    for shard in sorted(preferred, key=lambda s: (_coming_and_there(s, counts), s.name)):
        if objection(shard) is None:
            return Choice(shard.name)
    return strategy.choose(demand, candidates, counts)


def _coming_and_there(shard: Shard, counts: Counts) -> int:
    return counts.on(shard.name) + sum(counts.heading_to(shard.name).values())
