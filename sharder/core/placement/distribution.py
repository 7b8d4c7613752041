"""Place a whole ring at one moment, with a strategy that sticks (docs/placement.md, "Ceilings").

Source: gNMIc's operator (placement_blrh.go): keep what may stay, displace what a shard has too
many, then place what has no shard in byte order of the key.  A pin overrides sticking.

Which objects a shard that has too many gives up: those that are drawn to it least.

Source: gNMIc's operator keeps the highest scores of each pod and puts the others back into the
pool.  What people have pinned goes last, and what they had pinned goes first: it came without
asking for room, which others must not pay for.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import Generic, NamedTuple, TypeVar

from sharder.core.names import ShardName
from sharder.core.placement.demand import Demand
from sharder.core.placement.entries import Entry
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Reservation, Tally


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
        """Move what is pinned to where there is room for it; return whether anything moved."""
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
        """Place what has no shard; return whether anything found one.

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
        found = LeastDrawn[Placed](many)
        for placed in objects:
            key, pinned = placed.demand.key, placed.demand.pin == shard
            hold = KeepPriority(pinned, True, self._placer.score(key, shard), key)  # noqa: FBT003
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


T = TypeVar("T")


class KeepPriority(NamedTuple):
    """What speaks for an object to stay, the most important first; keys break ties."""

    pinned: bool
    invited: bool
    """The strategy has placed it there, not a pin that it has lost since."""
    score: float
    key: str


class _Offer(NamedTuple, Generic[T]):
    against: "_Reversed"
    item: T


class _Reversed:
    """A hold that sorts the other way round, for heaps have their least in front."""

    __slots__ = ("hold",)

    def __init__(self, hold: KeepPriority) -> None:
        self.hold = hold

    def __lt__(self, other: "_Reversed") -> bool:
        return other.hold < self.hold


class LeastDrawn(Generic[T]):
    """Of all objects of a shard, offered one by one, the few that it has too many."""

    def __init__(self, excess: int) -> None:
        """`excess` is how many to give up; memory does not grow beyond it."""
        self._excess = excess
        self._heap: list[_Offer[T]] = []

    def offer(self, hold: KeepPriority, item: T) -> None:
        """Consider an object."""
        entry = _Offer(_Reversed(hold), item)
        if len(self._heap) < self._excess:
            heappush(self._heap, entry)
        else:
            heappushpop(self._heap, entry)

    def items(self) -> list[T]:
        """Return what is to be given up, the least drawn first."""
        ordered = sorted(self._heap, key=lambda offer: offer.against.hold)
        return [offer.item for offer in ordered]
