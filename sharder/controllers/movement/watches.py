"""Watch for unassigned and draining objects.

There are few of them, so these watches cost little. They only show what to check: `Handover` reads
each object before it acts (docs/protocol.md, "Exceptions").
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.backlog import Backlog, Limit
from sharder.controllers.movement.drain_budget import DrainBudget
from sharder.controllers.movement.object_backlog import BacklogMetrics, Limits, ObjectBacklog
from sharder.controllers.movement.orphans import Orphans
from sharder.controllers.movement.overdue import OverdueDrains
from sharder.controllers.movement.pending import PendingObjects
from sharder.controllers.permissions import Watching
from sharder.controllers.scope import (
    WHOLE,
    ListRequest,
    ListScope,
    ResourceKey,
    Watch,
    scope_of,
    watches_of,
)
from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.stats import Overdue
from sharder.ports import Objects
from sharder.runtime.backoff import UNSERVED, Rng, failures_after
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import Polled, follow
from sharder.runtime.task_pool import batch

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _State:
    """State of one ring."""

    scope: tuple[object, ...] = ()
    placed: RingSnapshot | None = None
    """The snapshot by which objects are placed, as far as we know."""
    list_scope: ListScope = ()
    tasks: dict[Watch, asyncio.Task[None]] = field(default_factory=dict)
    backlogs: dict[ResourceKey, ObjectBacklog] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits(Limit(), Limit()))


class OrphanWatches:
    """Runs the watches of the rings, and enqueues what they show."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        pending: PendingObjects,
        forget: Callable[[ResourceKey], None],
        watching: Watching,
        on_change: Callable[[RingName], None],
        moved: Callable[[RingName], None],
        drains: DrainBudget,
        orphans: Orphans,
        overdue: OverdueDrains | None,
        metrics: BacklogMetrics,
        clock: Clock,
        rng: Rng,
        roles: Collection[Role] = tuple(Role),
    ) -> None:
        """Start without watches.

        Args:
            cache: Has the rings.
            objects: What is watched.
            pending: The queue of objects to check.
            forget: Called with a resource that was removed from its ring.
            watching: Records which watches are forbidden.
            on_change: Called when that changes for a ring.
            moved: Called when the unassigned or draining main objects of a ring change.
            drains: The budgets, which follow the draining objects.
            orphans: Use the backlogs of unassigned objects.
            overdue: Reports overdue drains, if given.
            metrics: Shows the backlogs.
            clock: For their ages.
            rng: For the jitter of back-offs.
            roles: Only resources of these roles are watched.
        """
        self._cache = cache
        self._roles = frozenset(roles)
        self._objects = objects
        self._pending = pending
        self._forget = forget
        self._watching = watching
        self._on_change = on_change
        self._moved = moved
        self._drains = drains
        self._orphans = orphans
        self._overdue = overdue
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
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

    def overdue(self, ring: RingName) -> Overdue | None:
        """Return the overdue drains of a ring, None without any."""
        return None if self._overdue is None else self._overdue.of(ring)

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
                        await self._clock.sleep(0)  # a namespace may concern a thousand rings
                    await self._changed.wait()
        finally:
            for state in self._rings.values():
                for resource_key in state.backlogs:
                    self._metrics.hide_backlogs(*resource_key)

    def _adjust(self, ring: RingName, group: asyncio.TaskGroup) -> None:
        """Start and stop watches if the ring's scope has changed."""
        snapshot = self._cache.snapshot(ring)
        if snapshot is None:
            self._end(self._rings.pop(ring, _State()))
            self._drains.forget(ring)
            return
        state, known = self._rings.setdefault(ring, _State()), self._cache.known_namespaces()
        self._expect_drains(state, snapshot)
        meta = snapshot.ring.metadata
        scope = (meta.uid, meta.generation, snapshot.namespaces, len(known))
        if state.scope == scope:
            return
        state.scope, state.list_scope = (
            scope,
            scope_of(snapshot.namespaces, known, state.list_scope),
        )
        wanted = {w for w in watches_of(snapshot, state.list_scope) if w.role in self._roles}
        for watch in state.tasks.keys() - wanted:
            state.tasks.pop(watch).cancel()
        self._see(snapshot, state)
        for watch in wanted - state.tasks.keys():
            task = group.create_task(self._watch(watch, state), name=f"watch {watch.resource_key}")
            state.tasks[watch] = task

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
        """Keep a backlog for each of the ring's resources, and for no others."""
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
                resource_key,
                role,
                snapshot=partial(self._cache.snapshot, snapshot.name),
                pending=self._pending,
                clock=self._clock,
                limits=state.limits,
                drains=self._drains.of(resource_key),
            )
            self._orphans.watch(resource_key, seen)
            unassigned, draining = seen.unassigned, seen.draining
            self._metrics.show_backlogs(*resource_key, unassigned=unassigned, draining=draining)

    def _drop(self, state: _State, resource_key: ResourceKey) -> None:
        state.backlogs.pop(resource_key).clear()
        self._orphans.forget(resource_key)
        self._metrics.hide_backlogs(*resource_key)
        self._forget(resource_key)

    async def _watch(self, watch: Watch, state: _State) -> None:
        """Watch until cancelled; start again if the resource changes.

        The resync reports a resource that cannot be read.
        """
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                resource = await self._objects.find(watch.resource_key.resource)
                await self._follow_all(watch, resource, state.backlogs[watch.resource_key])
            except ApiError:
                failures = failures_after(failures, self._clock.monotonic() - began)
                await self._clock.sleep(UNSERVED.delay(failures, self._rng))

    async def _follow_all(self, watch: Watch, resource: Resource, seen: ObjectBacklog) -> None:
        requests = watch.list_scope if resource.namespaced else WHOLE
        if not requests:
            await asyncio.Event().wait()
        async with batch(len(requests)) as watches:
            for part in requests:
                await watches.add(self._follow(watch, resource, part, seen))

    async def _follow(
        self, watch: Watch, resource: Resource, part: ListRequest, seen: ObjectBacklog
    ) -> None:
        """Watch one request, or poll it without the right to watch."""
        take = seen.take_draining if watch.draining else seen.take_unassigned
        backlog = seen.draining if watch.draining else seen.unassigned
        request, (ring, _) = object(), watch.resource_key
        source = Polled(
            self._objects.of(resource, watch.labels, namespace=part.namespace, fields=part.fields),
            clock=self._clock,
            on_access=partial(self._note_right, watch.resource_key, request),
            is_expecting=seen.is_moving if watch.role is Role.LEADING else _never,
        )
        events = follow(
            source,
            doing=f"watch {resource.id} with {watch.labels}",
            clock=self._clock,
            rng=self._rng,
            on_error=_raise_if_not_served,
            keep=seen.is_in_scope,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    before = backlog.count()
                    take(part, event)
                    if backlog.count() != before and watch.role is not Role.CONTROLLED:
                        self._moved(ring)
        finally:
            self._watching.ended(ring, resource.id, request)

    def _note_right(
        self, resource_key: ResourceKey, request: object, error: Forbidden | None
    ) -> None:
        if self._watching.found(*resource_key, request, allowed=error is None):
            if error is not None:
                fields = {
                    "ring": resource_key.ring,
                    "resource": str(resource_key.resource),
                    "error": str(error),
                }
                _log.warning("watch forbidden, polling instead", extra=fields)
            self._on_change(resource_key.ring)


def _never() -> bool:
    return False


def _raise_if_not_served(error: ApiError | None) -> None:
    """End the watch of a resource that is gone or has another version."""
    if isinstance(error, NotFound):
        raise error
