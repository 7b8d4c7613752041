"""Tell what happens to each ring: by Events on it, in the log, as a metric and on the console.

Only the leader runs this.  It tells the difference between the state that it told last and the
present one, so a thousand shards that join at once are one sentence, and a client that creates and
deletes Leases all the time causes no more sentences than `Allowance` permits.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from sharder.controllers.ports import Ports
from sharder.controllers.ring_status import about
from sharder.controllers.subscriber import Subscriber
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
    rebalanced: LastRebalance | None
    snapshot: RingSnapshot | None = None
    """The snapshot that was last told."""
    allowance: Allowance = field(default_factory=lambda: Allowance(BURST, PAUSE_SECONDS))


class RingTransitions:
    """What was told about all rings."""

    def __init__(
        self, ports: Ports, last_rebalance: Callable[[RingName], LastRebalance | None]
    ) -> None:
        """Start a term of leadership."""
        self._ports = ports
        self._cache = ports.cache
        self._clock = ports.clock
        self._last_rebalance = last_rebalance
        self._rings: dict[RingName, _State] = {}

    async def run(self) -> NoReturn:
        """Tell transitions until cancelled."""
        with self._cache.subscribed(Subscriber(ring=self._see)):
            while True:
                news, rings = list[tuple[ControllerRing, Transition]](), self._cache.rings()
                for deleted in self._rings.keys() - set(rings):
                    del self._rings[deleted]
                async for ring in in_slices(rings, self._clock):
                    if (snapshot := self._cache.snapshot(ring)) is not None:
                        news += [(snapshot.ring, each) for each in self._news(snapshot)]
                await self._tell(news)
                await self._clock.sleep(TICK_SECONDS)

    def _see(self, ring: RingName) -> None:
        """Begin with a new ring before this leader writes its status."""
        if (snapshot := self._cache.snapshot(ring)) is not None:
            self._state_of(snapshot)

    def _state_of(self, snapshot: RingSnapshot) -> _State:
        """Return the ring's state; another leader has told the shards of one with a status."""
        state, uid = self._rings.get(snapshot.name), snapshot.ring.metadata.uid
        if state is None or state.uid != uid:
            is_known = snapshot.ring.status.observed_generation
            told = present(phases_after({}, snapshot)) if is_known else {}
            state = _State(uid, told, self._last_rebalance(snapshot.name))
            self._rings[snapshot.name] = state
        return state

    def _news(self, snapshot: RingSnapshot) -> list[Transition]:
        """Return what was not told yet, if that is allowed now."""
        state, told = self._state_of(snapshot), {}
        last, found = self._last_rebalance(snapshot.name), list[Transition]()
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
                kind, text = transition.kind, sentence(transition)
                record = self._ports.recorder.record
                await requests.add(record(about(ring), kind, text, warning=kind.is_warning))


def _rebalanced(last: LastRebalance) -> Transition:
    run = "dry run of a rebalance" if last.dry_run else "rebalance"
    return Transition(kind=Kind.REBALANCED, detail=f"{run}: {last.why}")
