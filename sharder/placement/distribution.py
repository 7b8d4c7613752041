"""Place a whole ring at one moment, with a strategy that sticks (docs/placement.md, "Ceilings").

Source: gNMIc's operator (placement_blrh.go): keep what may stay, displace what a shard has too
many, then place what has no shard in byte order of the key.  A pin overrides sticking.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharder.names import ShardName
from sharder.placement.demand import Demand
from sharder.placement.displacement import Displaced, Hold
from sharder.placement.entries import Entry
from sharder.placement.placer import Placer
from sharder.placement.strategy import Choice
from sharder.placement.tally import Reservation, Tally


class Placed(NamedTuple):
    """An object as it stands; `demand.current` is its shard, available or not."""

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
    """By identity; what a reason says of an object with a shard is why it is not on its pin."""
    displaced: frozenset[int]
    """Those that a shard above its ceiling gives up, wherever they go then."""


def distribute(objects: Iterable[Placed], placer: Placer, *, paused: bool = False) -> Distribution:
    """Return where each of the ring's main objects belongs, in whatever order they come.

    An object stays on its available shard unless that has too many or it is pinned to another one
    that can take it.  What drains counts as staying if there is room, and is displaced first if
    not.  To distribute the result again moves nothing.  While movement is paused, what is on an
    available shard stays there.
    """
    ring = _Ring(objects, placer, paused=paused)
    found = True
    while found:
        if not paused:
            ring.displace()
            while ring.follow_pins():
                ring.displace()
        found = ring.fill()
    return Distribution(choices=ring.choices, displaced=frozenset(ring.displaced))


class _Ring:
    """The objects of a ring while they are distributed."""

    def __init__(self, objects: Iterable[Placed], placer: Placer, *, paused: bool) -> None:
        # Pages of a list may show an object twice: it has one place, or its pins would quarrel.
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
        """Take from each shard what it has too many."""
        excess = self._placer.ceilings(self._tally).excess()
        staying = defaultdict[ShardName | None, list[Placed]](list)
        for placed in self._objects:
            if not placed.deleting:
                staying[self._shard_of(placed)].append(placed)
        for shard, many in excess.items():
            # What is pinned here goes last even if it drains, or it would come back for ever.
            draining = [p for p in staying[shard] if p.draining and p.demand.pin != shard]
            settled = [p for p in staying[shard] if not p.draining or p.demand.pin == shard]
            leaving = self._least_drawn(draining, shard, many)
            leaving += self._least_drawn(settled, shard, many - len(leaving))
            for placed in leaving:
                self._tally.see(None, *placed.on(None))
                self.choices[placed.demand.identity] = Choice(None)
                self.displaced.add(placed.demand.identity)

    def follow_pins(self) -> bool:
        """Move what is pinned to where there is room for it; tell whether anything moved."""
        moved = False
        for placed in self._objects:
            shard = self._shard_of(placed)
            goal = self._placer.goal_of(placed.demand._replace(current=shard))
            if goal is not None and goal != shard:
                choice = self._place(placed)
                moved |= choice.shard is not None
                self.choices[placed.demand.identity] = choice._replace(shard=choice.shard or shard)
        return moved

    def fill(self) -> bool:
        """Place what has no shard; tell whether anything found one.

        What leaves a shard that is gone makes room in its pool, for one that came before it.
        """
        found = False
        for placed in self._objects:
            if self._shard_of(placed) is None:
                choice = self.choices[placed.demand.identity] = self._place(placed)
                found |= choice.shard is not None
        return found

    def _shard_of(self, placed: Placed) -> ShardName | None:
        return self.choices[placed.demand.identity].shard

    def _least_drawn(self, objects: Iterable[Placed], shard: ShardName, many: int) -> list[Placed]:
        found = Displaced[Placed](many)
        for placed in objects:
            key, pinned = placed.demand.key, placed.demand.pin == shard
            hold = Hold(pinned, True, self._placer.score(key, shard), key)  # noqa: FBT003
            found.offer(hold, placed)
        return found.items()

    def _place(self, placed: Placed) -> Choice:
        """Choose a shard and count the object there; without one it stays where it was counted."""
        shard = self._shard_of(placed)
        moves = shard is None and placed.demand.current is not None
        demand = placed.demand._replace(current=shard, moves=moves)
        choice = self._placer.place(demand, self._tally)
        if choice.shard is not None:
            self._tally.see(None, *placed.on(choice.shard))
        return choice
