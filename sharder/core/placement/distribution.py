"""Place a whole ring at one moment, with a strategy that sticks (docs/placement.md, "Ceilings").

Source: gNMIc's operator (placement_blrh.go): keep the objects that can stay, displace those above
a ceiling, then place those without a shard in byte order of the key.  A pin overrides sticking.

As with gNMIc's operator, the objects with the lowest score on a shard leave it first, but pinned
objects leave last.  Objects that are no longer pinned leave before all others: they were placed
without a check for room, so no other object has to leave because of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice


class Placed(NamedTuple):
    """An object as it is now; `demand.current` is its shard, available or not."""

    demand: Demand
    draining: bool = False
    deleting: bool = False

    def on(self, shard: ShardName | None) -> Reservation:
        """Return how the object counts once it is on `shard`."""
        pinned = shard is not None and self.demand.pin == shard
        entry = Entry(shard, self.demand.groups, deleting=self.deleting, pinned=pinned)
        return Reservation(self.demand.identity, entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Where every object of a ring belongs."""

    choices: Mapping[int, Choice]
    """By identity; if an object has a shard, the reason says why that is not its pinned shard."""
    displaced: frozenset[int]
    """The objects that leave a shard because it is above its ceiling."""


def distribute(objects: Iterable[Placed], placer: Placer, *, paused: bool = False) -> Distribution:
    """Return where each of the ring's main objects belongs; their order does not matter.

    An object stays on its available shard unless that has too many objects, or the object's labels
    exclude it and another one can take the object.  Draining objects stay if there is room;
    otherwise they leave first.  While movement is paused, all objects of available shards stay.
    If the result is distributed again, no object moves.
    """
    ring = _Ring(objects, placer, paused=paused)
    found = True
    while found:
        if not paused:
            ring.displace()
            while ring.follow_labels():
                ring.displace()
        found = ring.fill()
    return Distribution(choices=ring.choices, displaced=frozenset(ring.displaced))


class _Ring:
    """The objects of a ring during the distribution."""

    def __init__(self, objects: Iterable[Placed], placer: Placer, *, paused: bool) -> None:
        # The pages of a list can show an object twice, with different pins: one of them counts.
        once = {placed.demand.identity: placed for placed in objects}
        self._objects = sorted(once.values(), key=lambda o: (o.demand.key, o.demand.identity))
        self._placer = placer
        self._tally = Tally()
        self.choices: dict[int, Choice] = {}
        self.displaced: set[int] = set()
        layout = placer.layout
        keeping = layout.names if paused else layout.names - layout.evacuating
        for placed in self._objects:
            shard = placed.demand.current
            self._tally.see(None, *placed.on(shard))
            self.choices[placed.demand.identity] = Choice(shard if shard in keeping else None)

    def displace(self) -> None:
        """Remove the excess objects from each shard."""
        excess = self._placer.ceilings(self._tally).excess()
        staying = defaultdict[ShardName | None, list[Placed]](list)
        for placed in self._objects:
            if not placed.deleting:
                staying[self._shard_of(placed)].append(placed)
        for shard, many in excess.items():
            # Pinned objects leave last even if they drain; otherwise they would return each time.
            draining = [p for p in staying[shard] if p.draining and p.demand.pin != shard]
            settled = [p for p in staying[shard] if not p.draining or p.demand.pin == shard]
            leaving = self._first_to_leave(draining, shard, many)
            leaving += self._first_to_leave(settled, shard, many - len(leaving))
            for placed in leaving:
                self._tally.see(None, *placed.on(None))
                self.choices[placed.demand.identity] = Choice(None)
                self.displaced.add(placed.demand.identity)

    def follow_labels(self) -> bool:
        """Move misplaced objects if there is room elsewhere; return whether any moved."""
        moved = False
        for placed in self._objects:
            shard = self._shard_of(placed)
            if self._placer.is_misplaced(replace(placed.demand, current=shard)):
                choice = self._place(placed)
                moved |= choice.shard is not None
                self.choices[placed.demand.identity] = replace(choice, shard=choice.shard or shard)
        return moved

    def fill(self) -> bool:
        """Place the objects without a shard; return whether any was placed.

        An object that leaves a shard that is gone makes room in the pool of that shard, also for
        objects that were tried before.
        """
        found = False
        for placed in self._objects:
            if self._shard_of(placed) is None:
                choice = self.choices[placed.demand.identity] = self._place(placed)
                found |= choice.shard is not None
        return found

    def _shard_of(self, placed: Placed) -> ShardName | None:
        return self.choices[placed.demand.identity].shard

    def _first_to_leave(
        self, objects: Iterable[Placed], shard: ShardName, many: int
    ) -> list[Placed]:
        found = LowestPriorities[Placed](many)
        for placed in objects:
            key = placed.demand.key
            pinned, score = placed.demand.pin == shard, self._placer.score(key, shard)
            found.offer(KeepPriority(pinned, True, score, key), placed)  # noqa: FBT003
        return found.items()

    def _place(self, placed: Placed) -> Choice:
        """Choose a shard and count the object there; without a shard the count does not change."""
        shard = self._shard_of(placed)
        moves = shard is None and placed.demand.current is not None
        demand = replace(placed.demand, current=shard, moves=moves)
        choice = self._placer.place(demand, self._tally)
        if choice.shard is not None:
            self._tally.see(None, *placed.on(choice.shard))
        return choice


T = TypeVar("T")


class KeepPriority(NamedTuple):
    """How strongly an object stays on its shard, the most important field first.

    Keys break ties.
    """

    pinned: bool
    chosen: bool
    """Whether the strategy chose the shard, and not a pin that the object no longer has."""
    score: float
    key: str


class LowestPriorities(Generic[T]):
    """The objects that have to leave a shard, selected from those that are offered one by one."""

    def __init__(self, excess: int) -> None:
        """Begin without objects; `excess` is how many have to leave."""
        self._excess = excess
        self._offers: list[tuple[KeepPriority, T]] = []

    def offer(self, priority: KeepPriority, item: T) -> None:
        """Consider an object; at most twice as many as have to leave are kept in memory."""
        self._offers.append((priority, item))
        if len(self._offers) > 2 * self._excess:
            self._offers = self._lowest()

    def items(self) -> list[T]:
        """Return the objects that have to leave, the one with the lowest priority first."""
        return [item for _, item in self._lowest()]

    def _lowest(self) -> list[tuple[KeepPriority, T]]:
        return nsmallest(self._excess, self._offers, key=itemgetter(0))
