"""Tell what happens to each ring: by Events on it, in the log, as a metric and on the console.

Only the leader runs this.  It tells the difference between the state that it told last and the
present one, so a thousand shards that join at once are one sentence, and a client that creates and
deletes Leases all the time causes no more sentences than `Allowance` permits.
"""

import logging
from dataclasses import dataclass, field
from typing import Final

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.movement.controller import Movement
from sharder.controllers.ports import Ports
from sharder.controllers.ring_status import about
from sharder.core.api.ring import ControllerRing, LastRebalance
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.phases import (
    Kind,
    Phases,
    Transition,
    phases_after,
    present,
    sentence,
    silence_of,
    transitions,
)
from sharder.runtime.allowance import Allowance
from sharder.runtime.event_loop import in_slices
from sharder.runtime.task_pool import batch

TICK_SECONDS: Final = 0.5
"""Seconds between two tellings."""

BURST, PAUSE_SECONDS = 6, 10.0
"""How often a ring is told about: `BURST` times at once, then once per `PAUSE_SECONDS`."""

CONCURRENCY: Final = 8
"""Events that are sent at the same time."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _State:
    """State of one ring."""

    uid: str
    told: Phases
    """The shards that were present when the ring was last told about."""
    now: Phases
    """The shards that are present now."""
    rebalanced: LastRebalance | None
    snapshot: RingSnapshot | None = None
    """The snapshot that was last told."""
    allowance: Allowance = field(default_factory=lambda: Allowance(BURST, PAUSE_SECONDS))


class RingTransitions:
    """What was told about all rings."""

    def __init__(self, ports: Ports, movement: Movement) -> None:
        """Start a term of leadership."""
        self._ports = ports
        self._cache = ports.cache
        self._clock = ports.clock
        self._last_rebalance = movement.rebalancer.last
        self._written = movement.written
        """Gets the shards that ended, and those that are back."""
        self._rings: dict[RingName, _State] = {}

    def _ring_changed(self, ring: RingName) -> None:
        """Note the shards that ended since the ring's last snapshot."""
        snapshot, state = self._cache.snapshot(ring), self._rings.get(ring)
        if snapshot is None:
            self._rings.pop(ring, None)
        elif state is None or state.uid != snapshot.ring.metadata.uid:
            self._begin(snapshot)
        else:
            after = phases_after(state.now, snapshot)
            stay = present(after)
            for shard in stay.keys() - state.now.keys():
                self._written.returned(ring, shard)
            for shard in state.now.keys() - stay.keys():
                self._written.ended(ring, shard, silence_of(snapshot, shard, after[shard]))
            state.now = stay

    def _begin(self, snapshot: RingSnapshot) -> None:
        """Follow a ring; another leader has told the shards of a ring that has a status."""
        now = present(phases_after({}, snapshot))
        told = now if snapshot.ring.status.observed_generation else {}
        last = self._last_rebalance(snapshot.name)
        self._rings[snapshot.name] = _State(snapshot.ring.metadata.uid, told, now, last)

    async def run(self) -> None:
        """Tell transitions until cancelled."""
        with self._cache.subscribed(Subscriber(ring=self._ring_changed)):
            while True:
                await self._tell_news()
                await self._clock.sleep(TICK_SECONDS)

    async def _tell_news(self) -> None:
        news = list[tuple[ControllerRing, Transition]]()
        async for ring in in_slices(list(self._rings), self._clock):
            snapshot, state = self._cache.snapshot(ring), self._rings.get(ring)
            if snapshot is not None and state is not None:
                news += [(snapshot.ring, each) for each in self._news(snapshot, state)]
        if news:
            await self._tell(news)

    def _news(self, snapshot: RingSnapshot, state: _State) -> list[Transition]:
        """Return what was not told yet, if that is allowed now."""
        last, found, told = self._last_rebalance(snapshot.name), list[Transition](), {}
        if snapshot is not state.snapshot:
            after = phases_after(state.told, snapshot)
            told = present(after)
            found += transitions(state.told, after)
        if last is not None and last is not state.rebalanced and last.moves:
            found.append(_rebalanced(last))
        if found and not state.allowance.take(self._clock.monotonic()):
            return []
        if snapshot is not state.snapshot:
            state.told, state.snapshot = told, snapshot
        state.rebalanced = last
        return found

    async def _tell(self, news: list[tuple[ControllerRing, Transition]]) -> None:
        async with batch(CONCURRENCY) as requests:
            for ring, transition in news:
                fields: dict[str, str | int] = {"ring": ring.name}
                if transition.shards:
                    fields |= {"shard": transition.who, "available": transition.available}
                level = logging.WARNING if transition.kind.is_warning else logging.INFO
                _log.log(level, transition.kind.words, extra=fields)
                self._ports.metrics.counts["transitions_total"].add(ring.name, transition.kind)
                self._ports.journal.happened(ring.name, transition)
                await requests.add(self._record(ring, transition))

    async def _record(self, ring: ControllerRing, transition: Transition) -> None:
        await self._ports.recorder.record(
            about(ring),
            transition.kind,
            sentence(transition),
            warning=transition.kind.is_warning,
        )


def _rebalanced(last: LastRebalance) -> Transition:
    run = "dry run of a rebalance" if last.dry_run else "rebalance"
    return Transition(kind=Kind.REBALANCED, detail=f"{run}: {last.why}")
