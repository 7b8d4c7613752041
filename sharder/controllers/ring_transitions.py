"""Find and report the transitions of each ring.

Only the leader runs this.  Transitions are found whenever a snapshot changes, and reported
together once per second: a thousand shards that join at once are reported in one sentence, and a
client that creates and deletes Leases all the time causes no more sentences than `Allowance`
permits.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, NoReturn

from sharder.controllers.cache import ClusterCache
from sharder.controllers.ownerless import Ownerless, Rescue
from sharder.controllers.transition_reports import Listener, TransitionReports
from sharder.core.api.ring import ControllerRing, LastRebalance
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import EXHAUSTED, condition_of
from sharder.core.status.stats import ReportOf, StatsOf, UncountedOf
from sharder.core.status.transition_messages import Kind, Transition, of_shards
from sharder.core.status.transitions import (
    RingView,
    silence_of,
    stored_view,
    transitions,
    view_of,
)
from sharder.metrics.registry import Metrics
from sharder.ports import Recorder
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

TICK_SECONDS: Final = 0.5
"""Seconds between two reports."""

SETTLE_SECONDS: Final = 0.5
"""Seconds for which objects must lack capacity before this is reported: a short lack can end by
itself."""

CLOCK_SECONDS: Final = 0.01
"""How much the wall clock and the monotonic clock can differ; a pass takes longer."""


@dataclass(slots=True)
class _Evacuation:
    """A shard that is being evacuated."""

    since: float
    objects: int
    """The highest count of objects on the shard."""


@dataclass(slots=True)
class _State:
    """State of one ring."""

    uid: str
    view: RingView
    evacuations: dict[ShardName, _Evacuation] = field(default_factory=dict)
    """The evacuations in progress."""
    exhausted: bool = False
    exhausted_since: float | None = None
    rebalanced: LastRebalance | None = None


class RingTransitions:
    """Finds and reports the transitions of all rings."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        stats: StatsOf,
        last_resync: ReportOf,
        last_rebalance: Callable[[RingName], LastRebalance | None],
        uncounted: UncountedOf,
        ownerless: Ownerless,
        recorder: Recorder,
        metrics: Metrics,
        journal: Listener,
        clock: Clock,
    ) -> None:
        """Start a term of leadership.

        Args:
            cache: Has the rings.
            stats: Returns the counts of a ring's objects.
            last_resync: Returns the report of a ring's last pass.
            last_rebalance: Returns the result of a ring's last rebalance.
            uncounted: Returns the parts of a ring that cannot be read.
            ownerless: Knows the objects of shards that ended.
            recorder: Sends the Events.
            metrics: Gets each transition that is reported.
            journal: Gets each transition that is reported.
            clock: For the times.
        """
        self._cache = cache
        self._stats = stats
        self._last_resync = last_resync
        self._last_rebalance = last_rebalance
        self._uncounted = uncounted
        self._ownerless = ownerless
        self._reports = TransitionReports(
            cache=cache, recorder=recorder, listeners=(metrics.transitions, journal), clock=clock
        )
        self._metrics = metrics
        self._clock = clock
        self._rings: dict[RingName, _State] = {}
        self._unknown: dict[RingName, ControllerRing] = {}
        """Rings that are not tracked yet, each as first seen, because its status is overwritten in
        the meantime."""

    def ring_changed(self, ring: RingName) -> None:
        """Note what happened since the ring's last snapshot.

        The first snapshot of a ring is left to `run`: a new leader gets all rings at once.
        """
        snapshot, state = self._cache.snapshot(ring), self._rings.get(ring)
        if snapshot is None:
            self._rings.pop(ring, None)
            self._unknown.pop(ring, None)
            self._reports.forget(ring)
        elif state is None or state.uid != snapshot.ring.metadata.uid:
            self._unknown.setdefault(ring, snapshot.ring)
        else:
            self._note_changes(snapshot, state)

    def _note_changes(self, snapshot: RingSnapshot, state: _State) -> None:
        after = view_of(snapshot, state.view.shards)
        if after != state.view:
            self._note_shards(snapshot, state, after)
            state.view = after

    async def run(self) -> NoReturn:
        """Find and report transitions until cancelled."""
        while True:
            async for ring in in_slices(list(self._unknown), self._clock):
                self._meet(ring)
            async for ring in in_slices(list(self._rings), self._clock):
                self._note_counts(ring)
            self._note_rescues()
            await self._reports.send()
            await self._clock.sleep(TICK_SECONDS)

    def _meet(self, ring: RingName) -> None:
        """Begin to track a ring from the state in the last leader's status."""
        seen, snapshot = self._unknown.pop(ring, None), self._cache.snapshot(ring)
        if snapshot is not None and seen is not None:
            state = self._rings[ring] = self._first(seen, snapshot)
            self._note_changes(snapshot, state)

    def _first(self, ring: ControllerRing, snapshot: RingSnapshot) -> _State:
        exhausted = condition_of(ring.status, EXHAUSTED)
        state = _State(
            uid=snapshot.ring.metadata.uid,
            view=stored_view(ring.status, view_of(snapshot, frozenset())),
            exhausted=exhausted is not None and exhausted.status == "True",
            rebalanced=self._last_rebalance(ring.name),
        )
        state.evacuations = {
            ShardName(s.name): _Evacuation(self._clock.monotonic(), s.objects)
            for s in ring.status.shard_statuses
            if s.evacuating and s.objects
        }
        return state

    def _note_shards(self, snapshot: RingSnapshot, state: _State, after: RingView) -> None:
        """Note shards that joined, ended, or are handled differently from now on."""
        ring, stats = snapshot.name, self._stats(snapshot.name)
        objects = None if stats is None else stats.by_shard
        for shard, phase in state.view.ended_in(after).items():
            self._ownerless.ended(ring, shard, silence_of(snapshot, shard, phase))
        for shard in after.shards - state.view.shards:
            self._ownerless.forget(ring, shard)
        for transition in transitions(state.view, after, objects, snapshot.members.unable):
            self._reports.add(ring, transition)
        begun = after.evacuating - state.view.evacuating
        now = self._clock.monotonic()
        state.evacuations |= {s: _Evacuation(now, (objects or {}).get(s, 0)) for s in begun}
        state.evacuations = {s: e for s, e in state.evacuations.items() if s in after.evacuating}

    def _note_counts(self, ring: RingName) -> None:
        """Note evacuated shards, exhausted capacity and a finished rebalance."""
        snapshot, state = self._cache.snapshot(ring), self._rings.get(ring)
        if snapshot is None or state is None:
            return
        if state.evacuations:
            self._note_evacuations(snapshot.name, state)
        self._note_capacity(snapshot, state)
        last = self._last_rebalance(snapshot.name)
        if last is not None and last is not state.rebalanced:
            state.rebalanced = last
            if last.moves:
                self._reports.add(ring, _rebalanced(last))

    def _note_evacuations(self, ring: RingName, state: _State) -> None:
        """Note evacuated shards that have no objects left after a whole pass."""
        stats, passed = self._stats(ring), self._passed_at(ring)
        if stats is None:
            return
        empty = dict[ShardName, int]()
        for shard, evacuation in state.evacuations.items():
            left = stats.by_shard.get(shard, 0)
            evacuation.objects = max(evacuation.objects, left)
            if not left and passed > evacuation.since - CLOCK_SECONDS:
                empty[shard] = evacuation.objects
        if empty:
            self._reports.add(ring, of_shards(Kind.EVACUATED, empty, counted=True))
            state.evacuations = {s: e for s, e in state.evacuations.items() if s not in empty}

    def _passed_at(self, ring: RingName) -> float:
        """Return when the last pass over all parts of the ring ended (monotonic)."""
        resync = self._last_resync(ring)
        if resync is None or self._uncounted(ring):
            return -inf
        return self._clock.monotonic() - (self._clock.now() - resync.time).total_seconds()

    def _note_capacity(self, snapshot: RingSnapshot, state: _State) -> None:
        tally, now = snapshot.tally, self._clock.monotonic()
        if tally is None or not tally.synced:
            return
        waiting = tally.unassigned if snapshot.members.available else 0
        is_short = waiting > 0 and not snapshot.placer.has_room(tally)
        if is_short is state.exhausted:
            state.exhausted_since = None
            return
        if is_short:
            state.exhausted_since = now if state.exhausted_since is None else state.exhausted_since
            if now - state.exhausted_since < SETTLE_SECONDS:
                return
        state.exhausted, state.exhausted_since = is_short, None
        kind = Kind.EXHAUSTED if is_short else Kind.SUFFICIENT
        self._reports.add(
            snapshot.name, Transition(kind=kind, objects=waiting if is_short else None)
        )

    def _note_rescues(self) -> None:
        """Note ended shards that have no objects left after a whole pass."""
        ended = defaultdict[RingName, list[tuple[ShardName, Rescue]]](list)
        for (ring, shard), rescue in self._ownerless.rescues().items():
            ended[ring].append((shard, rescue))
        for ring, rescues in ended.items():
            state, stats = self._rings.get(ring), self._stats(ring)
            passed = self._passed_at(ring)
            if state is None:
                for shard, _ in rescues:
                    self._ownerless.forget(ring, shard)
            elif stats is not None:
                for shard, rescue in rescues:
                    is_over = passed > rescue.noted - CLOCK_SECONDS
                    if is_over and not stats.by_shard.get(shard):
                        self._note_rescue(ring, shard, rescue)

    def _note_rescue(self, ring: RingName, shard: ShardName, rescue: Rescue) -> None:
        self._ownerless.forget(ring, shard)
        if rescue.objects:
            self._metrics.transitions.rescued(ring, rescue.seconds)
            objects, seconds = {shard: rescue.objects}, rescue.seconds
            done = of_shards(Kind.REASSIGNED, objects, counted=True, seconds=seconds)
            self._reports.add(ring, done)


def _rebalanced(last: LastRebalance) -> Transition:
    run = "dry run of a rebalance" if last.dry_run else "rebalance"
    return Transition(kind=Kind.REBALANCED, objects=last.moves, detail=f"{run}: {last.why}")
