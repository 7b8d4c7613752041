"""Watch for unassigned and draining objects.

There are few of them, so these watches cost little.  They only show which objects to check:
`Handover` reads each object before it acts (docs/protocol.md, "Moving objects").
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sharder.controllers.cache import Subscriber
from sharder.controllers.journal import Backlogs
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.object_watch import ObjectWatch
from sharder.controllers.movement.overdue import OverdueDrains
from sharder.controllers.movement.table import MAX_REMEMBERED, State
from sharder.controllers.ports import BACKOFF, Ports
from sharder.controllers.scope import Part, Watch, watches_of
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import Waiting
from sharder.metrics.collectors import Reading
from sharder.metrics.registry import BACKLOGS
from sharder.runtime.reflector import POLL_SECONDS
from sharder.runtime.workqueue import WorkQueue


@dataclass(slots=True)
class _State:
    """State of one ring."""

    scope: tuple[object, ...] = ()
    placed: RingSnapshot | None = None
    """The snapshot with which objects are placed, as far as we know."""
    drains_until: float = 0.0
    """Until when drains are expected: objects might belong on other shards now."""
    tasks: dict[Watch, asyncio.Task[None]] = field(default_factory=dict)
    roles: dict[Part, Role] = field(default_factory=dict)
    """The watched resources."""


class Watches:
    """Runs the watches of the rings, and enqueues what they show."""

    def __init__(
        self, ports: Ports, pending: HandoverQueue, *, forget: Callable[[Part], None]
    ) -> None:
        """Start without watches; `forget` is called with a resource that has left its ring."""
        self._ports = ports
        self._clock = ports.clock
        self._roles = {Role.LEADING} if ports.stands_by else set(Role)
        self._pending = pending
        self._table = pending.table
        self._forget = forget
        self.overdue = OverdueDrains(ports, pending.table)
        self._rings: dict[RingName, _State] = {}
        self._changed = WorkQueue[RingName](clock=ports.clock, rng=ports.rng, backoff=BACKOFF)

    def recheck(self, ring: RingName) -> None:
        """Enqueue all unassigned objects of a ring: there is capacity again."""
        for part in self._rings.get(ring, _State()).roles:
            for ref in self._table.within(part, State.UNASSIGNED):
                self._pending.add(part.key(ref), is_released=False)

    def backlog(self, ring: RingName) -> Waiting:
        """Return the numbers of unassigned and draining main objects of a ring.

        A number is None if the limit is reached.
        """
        roles = self._rings.get(ring, _State()).roles.items()
        main = [part.resource for part, role in roles if role is not Role.CONTROLLED]
        unassigned, draining = (
            None
            if self._table.count(ring, state) >= MAX_REMEMBERED
            else sum(self._table.count(ring, state, resource) for resource in main)
            for state in (State.UNASSIGNED, State.DRAINING)
        )
        return Waiting(unassigned, draining)

    async def run(self) -> None:
        """Watch until cancelled."""
        changed = self._changed.add
        subscriber = Subscriber(ring=changed, scope=lambda ring, _: changed(ring))
        try:
            with self._ports.cache.subscribed(subscriber):
                async with asyncio.TaskGroup() as group:
                    if not self._ports.stands_by:
                        group.create_task(self.overdue.run(), name="overdue drains")
                    # One after the other: a namespace can affect a thousand rings.
                    await self._changed.run(partial(self._adjust, group), concurrency=1)
        finally:
            for state in self._rings.values():
                for part in state.roles:
                    self._hide(part)

    async def _adjust(self, group: asyncio.TaskGroup, ring: RingName) -> None:
        """Start and stop watches if the ring's scope has changed."""
        snapshot, state = self._ports.cache.snapshot(ring), self._rings.setdefault(ring, _State())
        if snapshot is None:
            self._see(state, {}, namespaces=set())
            self._follow(group, state, set())
            del self._rings[ring]
            self._table.forget_ring(ring)
            return
        if state.placed is None or snapshot.epoch is not state.placed.epoch:
            # The leader requests drains if the placement has changed.
            state.drains_until = self._clock.monotonic() + POLL_SECONDS
        state.placed, meta = snapshot, snapshot.ring.metadata
        scope = (meta.uid, meta.generation, snapshot.namespaces, snapshot.is_split)
        if state.scope == scope:
            return
        state.scope = scope
        watches = [watch for watch in watches_of(snapshot) if watch.role in self._roles]
        roles = {watch.part: watch.role for watch in watches}
        self._see(state, roles, namespaces={"", *snapshot.namespaces})
        self._follow(group, state, set(watches))

    def _follow(self, group: asyncio.TaskGroup, state: _State, wanted: set[Watch]) -> None:
        """Run the wanted watches of a ring, and no others."""
        for watch in state.tasks.keys() - wanted:
            state.tasks.pop(watch).cancel()
        for watch in wanted - state.tasks.keys():
            is_moving = partial(self._is_moving, watch.part.ring)
            running = ObjectWatch(self._ports, self._pending, watch, is_moving).run()
            state.tasks[watch] = group.create_task(running, name=f"watch {watch.part}")

    def _is_moving(self, ring: RingName) -> bool:
        """Return whether objects can be released at any moment."""
        return (
            self._clock.monotonic() < self._rings.get(ring, _State()).drains_until
            or self._table.count(ring, State.DRAINING) > 0
            or self._table.budget(ring).is_handing_over()
        )

    def _see(self, state: _State, roles: dict[Part, Role], *, namespaces: set[str]) -> None:
        """Follow these resources of a ring, and drop all others."""
        for part, role in state.roles.items():
            if roles.get(part) is not role:
                self._hide(part)
                self._forget(part)
            for ref, _ in self._table.of(part):
                if ref.namespace not in namespaces:
                    self._table.leave(part.key(ref), State.UNASSIGNED)
                    self._table.leave(part.key(ref), State.DRAINING)
        before, state.roles = state.roles, roles
        for part, role in roles.items():
            if before.get(part) is not role:
                self._show(part, role)

    def _show(self, part: Part, role: Role) -> None:
        of, table, states = part.resource, self._table, (State.UNASSIGNED, State.DRAINING)
        readings: list[Reading] = []
        for state in states:
            readings.append(partial(table.count, part.ring, state, of))
            readings.append(partial(table.age, part, state))
        shown = dict(zip(BACKLOGS, readings, strict=True))
        if role is not Role.CONTROLLED:
            backlogs = Backlogs(*(partial(table.by_shard, part, state) for state in states))
            self._ports.journal.show_backlogs(part.ring, of, backlogs)
            shown["overdue_drains"] = partial(self.overdue.count, part)
        for name, reading in () if self._ports.stands_by else shown.items():
            self._ports.metrics.gauges[name].show(reading, part.ring, *of)

    def _hide(self, part: Part) -> None:
        if not self._ports.stands_by:
            for name in (*BACKLOGS, "overdue_drains"):
                gauge = self._ports.metrics.gauges[name]
                gauge.hide(part.ring, *part.resource)
        self._ports.journal.hide_backlogs(part.ring, part.resource)
