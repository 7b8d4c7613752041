"""The recent history of the rings in this process, in bounded memory.

The leader records moves and transitions as they happen; the admission path records nothing.
Objects are counted, never named.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from typing_extensions import override

from sharder.core.names import NO_RING, GroupResource, RingName, ShardName
from sharder.core.status.phases import ShardPhase
from sharder.core.status.stats import StatsOf
from sharder.core.status.transition_messages import Transition, sentence
from sharder.ports import Backlog, Journal
from sharder.runtime.clock import Clock

MAX_EVENTS: Final = 50
"""Limit on the remembered events of one ring."""

MAX_DEPARTURES: Final = 50
"""Limit on the remembered departures of one ring."""

MAX_TARGETS: Final = 200
"""Limit on the target shards that are counted for one departed shard."""

DEPARTURE_LASTS: Final = timedelta(minutes=15)
"""How long a departure is remembered."""

FLOW_SECONDS: Final = 60.0
"""How long moves are remembered."""

MAX_TEXT: Final = 300
"""Limit on the characters of one text; names in it come from the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event of a ring."""

    at: datetime
    kind: str
    text: str
    warning: bool


@dataclass(slots=True, kw_only=True)
class Departed:
    """A departed shard, and the shards to which its objects have moved since."""

    shard: ShardName
    namespace: str
    phase: ShardPhase
    at: datetime
    objects: int | None
    moved: Counter[ShardName]
    returned: bool = False


Pair: TypeAlias = tuple[ShardName | None, ShardName]
"""The source of a move, None for an object without owner, and its target."""


class Backlogs(NamedTuple):
    """The backlogs of one main resource."""

    unassigned: Backlog
    draining: Backlog


@dataclass(slots=True)
class _Remembered:
    """The history of one ring."""

    events: deque[Happening] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    departures: deque[Departed] = field(default_factory=lambda: deque(maxlen=MAX_DEPARTURES))
    fresh: Counter[Pair] = field(default_factory=Counter)
    """Moves since the last tick."""
    flows: deque[tuple[float, Counter[Pair]]] = field(default_factory=deque)
    """Moves of the last minute: one entry for each tick."""
    backlogs: dict[GroupResource, Backlogs] = field(default_factory=dict)
    present: frozenset[ShardName] = frozenset()
    """The shards at the last poll."""


class Memory(Journal):
    """Implements the `Journal` of the controllers; only the console reads it."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self._clock = clock
        self._rings: defaultdict[RingName, _Remembered] = defaultdict(_Remembered)
        self.counts: StatsOf | None = None
        """Counts the objects, if this replica leads."""

    @override
    def leads(self, counts: StatsOf | None) -> None:
        self.counts = counts

    @override
    def happened(self, ring: RingName, transition: Transition) -> None:
        kind = transition.kind
        text, at = sentence(transition)[:MAX_TEXT], self._clock.now()
        event = Happening(at=at, kind=kind, text=text, warning=kind.is_warning)
        self._rings[ring].events.appendleft(event)

    @override
    def moved(self, ring: RingName, source: ShardName | None, target: ShardName) -> None:
        remembered = self._rings[ring]
        remembered.fresh[source, target] += 1
        for gone in remembered.departures:
            if gone.shard == source and not gone.returned:
                if target in gone.moved or len(gone.moved) < MAX_TARGETS:
                    gone.moved[target] += 1
                break

    @override
    def show_backlogs(
        self,
        ring: RingName,
        resource: GroupResource,
        *,
        unassigned: Backlog,
        draining: Backlog,
    ) -> None:
        self._rings[ring].backlogs[resource] = Backlogs(unassigned, draining)

    @override
    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        self._of(ring).backlogs.pop(resource, None)

    def saw(self, ring: RingName, shards: frozenset[ShardName]) -> None:
        """Note the shards of a ring at this poll."""
        self._rings[ring].present = shards

    def departed(
        self,
        ring: RingName,
        shard: ShardName,
        *,
        namespace: str,
        phase: ShardPhase,
        objects: int | None,
    ) -> None:
        """Note that a shard has gone since the last tick, and how many objects it had."""
        remembered = self._rings[ring]
        moved = Counter({pair[1]: n for pair, n in remembered.fresh.items() if pair[0] == shard})
        departed = Departed(
            shard=shard,
            namespace=namespace,
            phase=phase,
            at=self._clock.now(),
            objects=objects,
            moved=moved,
        )
        remembered.departures.appendleft(departed)

    def returned(self, ring: RingName, shard: ShardName) -> None:
        """Note that a shard is present; if it had departed, it has returned."""
        for gone in self.departures(ring):
            gone.returned |= gone.shard == shard

    def tick(self) -> Mapping[RingName, Mapping[Pair, int]]:
        """Return the moves since the last tick, and forget old moves and departures."""
        now, moves = self._clock.monotonic(), dict[RingName, Mapping[Pair, int]]()
        oldest_departure = self._clock.now() - DEPARTURE_LASTS
        for ring, remembered in self._rings.items():
            if remembered.fresh:
                moves[ring] = remembered.fresh
                remembered.flows.append((now, remembered.fresh))
                remembered.fresh = Counter()
            while remembered.flows and remembered.flows[0][0] <= now - FLOW_SECONDS:
                remembered.flows.popleft()
            while remembered.departures and remembered.departures[-1].at < oldest_departure:
                remembered.departures.pop()
        return moves

    def keep(self, rings: Collection[RingName]) -> None:
        """Forget all rings except `rings`."""
        for ring in self._rings.keys() - {*rings, NO_RING}:
            del self._rings[ring]

    def events(self, ring: RingName) -> Iterable[Happening]:
        """Return the events of a ring, or of `NO_RING`, the latest first."""
        return self._of(ring).events

    def departures(self, ring: RingName) -> Iterable[Departed]:
        """Return the shards that have departed recently, the latest first."""
        return self._of(ring).departures

    def present(self, ring: RingName) -> frozenset[ShardName]:
        """Return the ring's shards at the last poll."""
        return self._of(ring).present

    def flows(self, ring: RingName) -> Counter[Pair]:
        """Return the moves of the last minute."""
        total = Counter[Pair]()
        for _, moves in self._of(ring).flows:
            total.update(moves)
        return total

    def just_left(self, ring: RingName) -> Counter[ShardName]:
        """Return how many objects have left each shard since the last tick."""
        left = Counter[ShardName]()
        for (source, _), objects in self._of(ring).fresh.items():
            if source is not None:
                left[source] += objects
        return left

    def backlogs(self, ring: RingName) -> Mapping[GroupResource, Backlogs]:
        """Return the backlogs of the ring's main resources; empty unless we lead."""
        return self._of(ring).backlogs

    def _of(self, ring: RingName) -> _Remembered:
        """Return the history of a ring, without creating an entry for an unknown ring."""
        return self._rings.get(ring) or _Remembered()
