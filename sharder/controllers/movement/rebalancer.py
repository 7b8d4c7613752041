"""Rebalance each ring once per interval, because the load of its shards changes.

Only the leader runs this.  Each run lists the ring's objects again, and computes the moves in a
child process; at its write each move is decided again.  So nothing is remembered but, for two
intervals, the objects that were moved (docs/rebalancing.md).
"""

import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import structs

from sharder.controllers.movement.mover import AGAIN_SECONDS, Mover, Superseded
from sharder.controllers.ports import Ports
from sharder.controllers.scope import Part, read, requests_of, scope_of
from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import LastRebalance, PlannedMove, RebalanceSpec, RebalanceStrategy
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.planner import plan_directed
from sharder.core.movement.step import Drain
from sharder.core.names import ObjectRef, RingName
from sharder.core.rebalance.balance import Balance, is_even
from sharder.core.rebalance.packed import Outcome, unpack
from sharder.core.rebalance.run import Move
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.texts import named, parse_duration
from sharder.runtime.child_process import ChildFailed
from sharder.runtime.task_pool import batch

MAX_PLANNED: Final = 20
"""Limit on the moves of a dry run that the status lists."""

REST_INTERVALS: Final = 2
"""Number of intervals in which a moved object is not moved again, as `docs/rebalancing.md`
promises."""

EVEN: Final = "no move makes the shards more even: each has its share of the objects"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _State:
    """State of one ring."""

    finished_at: float | None = None
    moved: dict[str, float] = field(default_factory=dict)
    """When each object was last moved for balance, or could not be moved, by key."""
    unread: frozenset[str] = frozenset()
    """The parts that the last run could not read.  A run that cannot read another part ends, in
    case that is over at the next run."""
    asked: int = 0
    """Drains that were requested since the last complete run."""
    last: LastRebalance | None = None


class Rebalancer:
    """Rebalances one ring at a time, by name."""

    def __init__(self, ports: Ports, mover: Mover) -> None:
        self._ports = ports
        self._mover = mover
        self._rings: dict[RingName, _State] = {}

    def last(self, ring: RingName) -> LastRebalance | None:
        """Return the result of the last run, None without one."""
        state = self._rings.get(ring)
        return None if state is None else state.last

    async def reconcile(self, name: RingName) -> float | None:
        """Rebalance the ring if it is due; return the seconds until the next reconcile."""
        snapshot = self._ports.cache.snapshot(name)
        if snapshot is None or snapshot.ring.spec.rebalance.strategy is RebalanceStrategy.NONE:
            if self._rings.pop(name, None) is not None:
                self._ports.metrics.gauges["rebalance_planned_moves"].hide(name)
            return None
        state = self._rings.setdefault(name, _State())
        interval, now = _interval(snapshot.ring.spec.rebalance), self._ports.clock.monotonic()
        if state.finished_at is not None and now < state.finished_at + interval:
            return state.finished_at + interval - now
        if snapshot.tally is None or not snapshot.tally.synced:
            return AGAIN_SECONDS
        state.moved = {
            k: at for k, at in state.moved.items() if now < at + REST_INTERVALS * interval
        }
        try:
            outcome, moves = await self._rebalance(snapshot, state)
        except Superseded:
            return AGAIN_SECONDS
        self._report(snapshot, state, outcome, moves=moves)
        state.finished_at, state.asked = now, 0
        return interval

    async def _rebalance(self, snapshot: RingSnapshot, state: _State) -> tuple[Outcome, int]:
        """Return the outcome of a run, and how many moves were requested."""
        balance = Balance(snapshot, moved=state.moved)
        still = balance.standstill() or (EVEN if is_even(snapshot) else None)
        if still is not None:
            return Outcome(why=still), 0
        unread = await self._weigh(snapshot, balance)
        if unread - state.unread:
            state.unread = unread
            why = f"cannot read {named(sorted(unread))}; the next run continues without"
            return Outcome(why=why), 0
        state.unread = unread
        try:
            outcome = unpack(await self._ports.compute(balance.packed()))
        except (ChildFailed, OSError) as error:
            why = f"the moves could not be computed, the next run tries again: {error}"
            _log.error("rebalance failed", extra={"ring": snapshot.name, "error": str(error)})
            return Outcome(why=why), 0
        self._mover.check(snapshot)
        if snapshot.ring.spec.rebalance.dry_run:
            return outcome, len(outcome.moves)
        return outcome, await self._carry_out(snapshot, state, outcome.moves)

    async def _weigh(self, snapshot: RingSnapshot, balance: Balance) -> frozenset[str]:
        """Weigh all objects that can be read; return the parts that could not."""
        list_scope, unread = scope_of(snapshot), set[str]()
        main = [resource.id for resource in snapshot.resources]
        for of in (*main, *sorted(snapshot.roles.keys() - main)):
            is_main = snapshot.roles[of] is not Role.CONTROLLED
            try:
                resource = await self._ports.objects.find(of)
            except ApiError as error:
                if is_main or not isinstance(error, NotFound):  # otherwise there are no objects
                    unread.add(str(of))
                continue
            add = balance.add if is_main else balance.add_controlled
            for namespace in requests_of(resource, list_scope):
                try:
                    await self._list(snapshot, resource, namespace, add)
                except ApiError:
                    unread.add(str(Part(snapshot.name, of, namespace)))
        return frozenset(unread)

    async def _list(
        self,
        snapshot: RingSnapshot,
        resource: Resource,
        namespace: str,
        add: Callable[[PartialObject], None],
    ) -> None:
        store = self._ports.objects.of(resource, namespace=namespace)
        async with aclosing(store.stream()) as objects:
            async for obj in objects:
                if snapshot.selects(obj, snapshot.roles[resource.id]):
                    add(obj)

    async def _carry_out(
        self, snapshot: RingSnapshot, state: _State, moves: tuple[Move, ...]
    ) -> int:
        """Request the drains; return how many were requested in this interval.

        This number includes the drains that a superseded run requested.
        """
        budget = snapshot.ring.spec.rebalance.max_moves_per_interval - state.asked
        async with batch(self._mover.limit) as writes:
            for move in moves[: max(0, budget)]:
                await writes.add(self._drain(snapshot, state, move))
        return state.asked

    async def _drain(self, snapshot: RingSnapshot, state: _State, move: Move) -> None:
        self._mover.check(snapshot)
        group, name_of_kind, namespace, name = move.key.split("/")
        kind = snapshot.kinds.get((group, name_of_kind))
        if kind is None:  # it was discovered since
            return
        try:
            resource = await self._ports.objects.find(kind.resource)
            obj = await read(self._ports.objects, resource, ObjectRef(namespace, name))
        except (ApiError, InvalidObject) as error:
            fields = {"ring": snapshot.name, "object": move.key, "error": str(error)}
            _log.info("rebalance skipped object", extra=fields)
            return
        decide = partial(plan_directed, source=move.source, target=move.target)
        step = await self._mover.move(snapshot.name, resource, obj, decide)
        if step is None:
            return
        # One that cannot have its target rests too: else every run would find the same move.
        state.moved[move.key] = self._ports.clock.monotonic()
        if isinstance(step, Drain):
            state.asked += 1
            self._ports.metrics.counts["rebalance_moves_total"].add(snapshot.name)

    def _report(
        self, snapshot: RingSnapshot, state: _State, outcome: Outcome, *, moves: int
    ) -> None:
        """Report the result, unless it is the same as before."""
        planned_moves = self._ports.metrics.gauges["rebalance_planned_moves"]
        planned_moves.show(len(outcome.moves), snapshot.name)
        dry_run = snapshot.ring.spec.rebalance.dry_run
        planned = [
            PlannedMove(object=m.key, source=m.source, target=m.target) for m in outcome.moves
        ]
        last = LastRebalance(
            time=to_the_second(self._ports.clock.now()),
            dry_run=dry_run,
            moves=moves,
            why=outcome.why,
            planned=tuple(planned[:MAX_PLANNED]) if dry_run else (),
        )
        known = state.last
        is_new = known is None or structs.replace(known, time=last.time) != last
        if not is_new and (dry_run or not moves):
            return
        state.last = last
        fields = {"ring": snapshot.name, "moves": moves, "why": outcome.why}
        _log.debug("rebalance finished", extra=fields)  # the transition of the ring has the moves
        self._ports.on_change(snapshot.name)


def _interval(spec: RebalanceSpec) -> float:
    """Return the seconds between two runs; the CRD rejects invalid values."""
    try:
        return max(1.0, parse_duration(spec.interval).total_seconds())
    except ValueError:
        return parse_duration(RebalanceSpec().interval).total_seconds()
