"""Watch for unassigned and draining objects.

There are few of them, so these watches cost little.  They only show which objects to check:
`Handover` reads each object before it acts (docs/protocol.md, "Moving objects").
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.mover import Mover
from sharder.controllers.movement.object_backlog import Limits, ObjectBacklog, OverdueDrains
from sharder.controllers.movement.unassigned import MAX_REMEMBERED, Backlog, Limit
from sharder.controllers.movement.watch_runner import WatchRunner
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ResourceKey, Watch, watches_of
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import Troubled, Waiting
from sharder.metrics.registry import BACKLOGS


@dataclass(slots=True)
class _State:
    """State of one ring."""

    scope: tuple[object, ...] = ()
    placed: RingSnapshot | None = None
    """The snapshot with which objects are placed, as far as we know."""
    tasks: dict[Watch, asyncio.Task[None]] = field(default_factory=dict)
    backlogs: dict[ResourceKey, ObjectBacklog] = field(default_factory=dict)
    limits: Limits = field(
        default_factory=lambda: Limits(Limit(MAX_REMEMBERED), Limit(MAX_REMEMBERED))
    )


class OrphanWatches:
    """Runs the watches of the rings, and enqueues what they show."""

    def __init__(
        self,
        ports: Ports,
        mover: Mover,
        pending: HandoverQueue,
        *,
        forget: Callable[[ResourceKey], None],
    ) -> None:
        """Start without watches; `forget` is called with a resource that has left its ring."""
        self._ports = ports
        self._clock = ports.clock
        self._roles = {Role.LEADING} if ports.stands_by else set(Role)
        self._pending = pending
        self._forget = forget
        self._mover = mover
        self._overdue = None if ports.stands_by else OverdueDrains(ports)
        self._metrics = None if ports.stands_by else ports.metrics
        self._runner = WatchRunner(ports)
        self._rings: dict[RingName, _State] = {}
        self._stale = set[RingName]()
        self._changed = asyncio.Event()

    def ring_changed(self, ring: RingName) -> None:
        """Update the watches of a ring."""
        self._stale.add(ring)
        self._changed.set()

    def recheck(self, ring: RingName) -> None:
        """Enqueue all unassigned objects of a ring: there is capacity again."""
        for backlogs in self._rings.get(ring, _State()).backlogs.values():
            backlogs.recheck()

    def overdue(self, ring: RingName) -> Troubled | None:
        """Return the overdue drains of a ring, None if there are none."""
        return None if self._overdue is None else self._overdue.of(ring)

    def backlog(self, ring: RingName) -> Waiting:
        """Return the numbers of unassigned and draining main objects of a ring.

        A number is None if the limit is reached.
        """
        state = self._rings.get(ring, _State())
        main = [seen for seen in state.backlogs.values() if seen.role is not Role.CONTROLLED]
        unassigned, draining = state.limits
        return Waiting(
            sum(seen.unassigned.count() for seen in main) if unassigned.left > 0 else None,
            sum(seen.draining.count() for seen in main) if draining.left > 0 else None,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                if self._overdue is not None:
                    looking = self._overdue.run(self._draining)
                    group.create_task(looking, name="overdue drains")
                while True:
                    self._changed.clear()
                    while self._stale:
                        self._adjust(self._stale.pop(), group)
                        await self._clock.sleep(0)  # a namespace can affect a thousand rings
                    await self._changed.wait()
        finally:
            for state in self._rings.values():
                for resource_key in state.backlogs:
                    self._hide(resource_key)

    def _adjust(self, ring: RingName, group: asyncio.TaskGroup) -> None:
        """Start and stop watches if the ring's scope has changed."""
        snapshot = self._ports.cache.snapshot(ring)
        if snapshot is None:
            self._end(self._rings.pop(ring, _State()))
            self._mover.drains.forget(ring)
            return
        state = self._rings.setdefault(ring, _State())
        self._expect_drains(state, snapshot)
        meta = snapshot.ring.metadata
        scope = (meta.uid, meta.generation, snapshot.namespaces, snapshot.is_split)
        if state.scope == scope:
            return
        state.scope = scope
        wanted = {w for w in watches_of(snapshot) if w.role in self._roles}
        for watch in state.tasks.keys() - wanted:
            state.tasks.pop(watch).cancel()
        self._see(snapshot, state)
        for watch in wanted - state.tasks.keys():
            running = self._runner.run(watch, state.backlogs[watch.resource_key])
            state.tasks[watch] = group.create_task(running, name=f"watch {watch.resource_key}")

    def _expect_drains(self, state: _State, snapshot: RingSnapshot) -> None:
        """Expect drains if the placement has changed: the leader requests them then."""
        if state.placed is not None and not snapshot.places_like(state.placed):
            for seen in state.backlogs.values():
                seen.expect_drains()
        state.placed = snapshot

    def _draining(self) -> dict[ResourceKey, Backlog]:
        """Return the draining main objects of all rings."""
        return {
            resource_key: seen.draining
            for state in self._rings.values()
            for resource_key, seen in state.backlogs.items()
            if seen.role is not Role.CONTROLLED
        }

    def _end(self, state: _State) -> None:
        """Remove everything of a deleted ring."""
        for task in state.tasks.values():
            task.cancel()
        for resource_key in list(state.backlogs):
            self._drop(state, resource_key)

    def _see(self, snapshot: RingSnapshot, state: _State) -> None:
        """Keep one backlog for each of the ring's resources, and drop all others."""
        for resource_key, seen in list(state.backlogs.items()):
            if snapshot.roles.get(resource_key.resource) is not seen.role:
                self._drop(state, resource_key)
            else:
                seen.keep_namespaces(snapshot.namespaces)
        for resource, role in snapshot.roles.items():
            resource_key = ResourceKey(snapshot.name, resource)
            if resource_key in state.backlogs or role not in self._roles:
                continue
            state.backlogs[resource_key] = seen = ObjectBacklog(
                self._ports,
                self._mover,
                self._pending,
                key=resource_key,
                role=role,
                limits=state.limits,
            )
            unassigned, draining = seen.unassigned, seen.draining
            if self._metrics is not None:
                shown = (unassigned.count, unassigned.age, draining.count, draining.age)
                for name, reading in zip(BACKLOGS, shown, strict=True):
                    self._metrics.gauges[name].show(reading, snapshot.name, *resource)
            if role is not Role.CONTROLLED:
                self._ports.journal.show_backlogs(
                    *resource_key, unassigned=unassigned, draining=draining
                )

    def _drop(self, state: _State, resource_key: ResourceKey) -> None:
        state.backlogs.pop(resource_key).clear()
        self._mover.unassigned.forget(resource_key)
        self._hide(resource_key)
        self._forget(resource_key)

    def _hide(self, resource_key: ResourceKey) -> None:
        if self._metrics is not None:
            for name in (*BACKLOGS, "overdue_drains"):
                self._metrics.gauges[name].hide(resource_key.ring, *resource_key.resource)
        self._ports.journal.hide_backlogs(*resource_key)
