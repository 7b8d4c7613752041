"""Spread: an object goes to the zone, and there to the shard, with the fewest of its group.

Source: Kubernetes SelectorSpread (pkg/scheduler/framework/plugins/selectorspread), with two
differences.  All shards of the ring count, not only the candidates; otherwise a zone whose shards
are full would seem empty (kubernetes#71327).  Scores are exact, while upstream uses floating point
and so has some scores that are one too low.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from typing_extensions import override

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import NO_GROUP, Demand
from sharder.core.placement.strategy import Choice, GroupMembers, Strategy, group_members_of

FULL_SCORE: Final = 100
"""The score of a shard without members in a zone without members, as since Kubernetes 1.18."""

_ZONE_PARTS: Final = 2
_PARTS: Final = 3
"""Two thirds of the score are for the zone, one third is for the shard: zoneWeighting upstream."""


class Spread(Strategy):
    """SelectorSpread over the members of the object's group; sticks."""

    __slots__ = ()

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the candidate with the highest score; the ranking decides between equal ones."""
        members, highest = group_members_of(demand, self.layout, counts), self.layout.highest
        if not members.on:
            return Choice(highest(demand.key, candidates).name)
        equals = self._nearby(candidates, members)
        if equals:
            first = highest(demand.key, equals)
            if first.name not in members.on:
                return Choice(first.name)
            equals = [shard for shard in equals if shard.name not in members.on]
        return Choice(highest(demand.key, equals or _highest(candidates, members)).name)

    def _nearby(self, candidates: Sequence[Shard], members: GroupMembers) -> Sequence[Shard]:
        """Return the candidates in the best zones, if candidates without a member score highest.

        This is the usual case, and is faster than to compute the score of each candidate.
        """
        if len(members.on) >= len(candidates):
            return ()
        zones, score = self.layout.by_place(candidates), _scale_of(members, FULL_SCORE)
        most = {place: score(0, members.near(place)) for place in zones}
        best = max(most.values())
        places = [place for place, found in most.items() if found == best]
        # Scores are rounded down, so a shard with a member can score as much as one without.
        if best <= max(score(1, members.near(place)) for place in places):
            return ()
        return list(chain.from_iterable(zones[place] for place in places))

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the scores and their reasons."""
        if demand.group == NO_GROUP:
            score = self.layout.ranking.score
            return {
                s.name: f"the object has no group, its key alone scores {score(demand.key, s):.4g}"
                for s in candidates
            }
        members = group_members_of(demand, self.layout, counts)
        scores = spread_scores(candidates, members, FULL_SCORE)
        return {
            shard.name: f"score {score} of {FULL_SCORE}: {members.around(shard)}"
            for shard, score in zip(candidates, scores, strict=True)
        }


def spread_scores(shards: Sequence[Shard], members: GroupMembers, full: int) -> list[int]:
    """Return how well each shard suits one more member, from 0 to `full`, which is best.

    Args:
        shards: The shards to score; without a zone, only the shard's own members count.
        members: The members on all shards of the ring.
        full: The highest score; in kube-scheduler it was 10 up to 1.17, and is 100 since then.
    """
    score = _scale_of(members, full)
    return [score(members.here(s), members.near(s.place)) for s in shards]


def _highest(candidates: Sequence[Shard], members: GroupMembers) -> list[Shard]:
    """Return the candidates with the highest score."""
    scores = spread_scores(candidates, members, FULL_SCORE)
    highest = max(scores)
    return [s for s, score in zip(candidates, scores, strict=True) if score == highest]


def _scale_of(members: GroupMembers, full: int) -> Callable[[int, int | None], int]:
    """Return the score of a shard by its own members and those in its zone, None without a zone.

    If the group has no members, each shard gets the full score.
    """
    shard_most = max(members.on.values(), default=1)
    zone_most = max(members.in_zone.values(), default=1)

    def score(here: int, near: int | None) -> int:
        shard_room = shard_most - here
        if near is None:
            return full * shard_room // shard_most
        by_shard = (_PARTS - _ZONE_PARTS) * shard_room * zone_most
        by_zone = _ZONE_PARTS * (zone_most - near) * shard_most
        return full * (by_shard + by_zone) // (_PARTS * shard_most * zone_most)

    return score
