"""The recent history of the rings in this process, in bounded memory, for the console.

The leader records moves and transitions as they happen; the admission path records nothing.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, NamedTuple, TypeAlias

import msgspec

from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.status.conditions import StatsOf
from sharder.core.status.phases import Transition, sentence
from sharder.runtime.clock import Clock

MAX_EVENTS: Final = 50
"""Limit on the remembered events of one ring."""

FLOW_SECONDS: Final = 60.0
"""How long moves are remembered."""

MAX_TEXT: Final = 300
"""Limit on the characters of one text; names in it come from the cluster."""


Pair: TypeAlias = tuple[ShardName | None, ShardName]
"""The source of a move, None for an object without owner, and its target."""

Backlog: TypeAlias = Callable[[], Mapping[ShardName, tuple[int, float]]]
"""Returns, for each shard, the number of objects and the age of the oldest in seconds."""


class Backlogs(NamedTuple):
    """The backlogs of one main resource."""

    unassigned: Backlog
    draining: Backlog


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a ring."""

    at: datetime
    text: str
    warning: bool


@dataclass(slots=True)
class Remembered:
    """The history of one ring."""

    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    """The latest first."""
    flows: deque[tuple[float, Counter[Pair]]] = field(default_factory=deque)
    """Moves of the last minute, one entry for each second that has any."""
    moved_at: float = -inf
    """When an object was last seen to move, in monotonic seconds."""
    backlogs: dict[GroupResource, Backlogs] = field(default_factory=dict)
    """Those of the main resources; empty unless this replica leads."""


class Journal:
    """Records what happens to the rings; it is called on the event loop, and never waits."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self._clock = clock
        self._rings: defaultdict[RingName, Remembered] = defaultdict(Remembered)
        self.counts: StatsOf | None = None
        """Counts the objects while this replica leads."""

    def happened(self, ring: RingName, transition: Transition) -> None:
        """Record a transition that the leader reports."""
        event = Event(
            at=self._clock.now(),
            text=sentence(transition)[:MAX_TEXT],
            warning=transition.kind.is_warning,
        )
        self._rings[ring].events.appendleft(event)

    def moved(self, ring: RingName, source: ShardName | None, target: ShardName) -> None:
        """Record that a main object was assigned; `source` is None if it was on no shard."""
        remembered, now = self._rings[ring], self._clock.monotonic()
        remembered.moved_at, flows = now, remembered.flows
        if not flows or now >= flows[-1][0] + 1:
            flows.append((now, Counter()))
        flows[-1][1][source, target] += 1
        while flows[0][0] <= now - FLOW_SECONDS:
            flows.popleft()

    def show_backlogs(self, ring: RingName, resource: GroupResource, backlogs: Backlogs) -> None:
        """Show the backlogs of a resource from now on."""
        self._rings[ring].backlogs[resource] = backlogs

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        """Hide them; without any, the ring is deleted, or this replica no longer leads."""
        backlogs = self.of(ring).backlogs
        backlogs.pop(resource, None)
        if not backlogs:
            self._rings.pop(ring, None)

    def flows(self, ring: RingName) -> Counter[Pair]:
        """Return the moves of the last minute."""
        begin, total = self._clock.monotonic() - FLOW_SECONDS, Counter[Pair]()
        for at, moves in self.of(ring).flows:
            if at > begin:
                total.update(moves)
        return total

    def of(self, ring: RingName) -> Remembered:
        """Return the history of a ring, without creating an entry for an unknown ring."""
        return self._rings.get(ring) or Remembered()
