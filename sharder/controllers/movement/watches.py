"""Watch for objects that are not as they should be: without owner, or being drained.

Hardly any object is, so these watches cost little.  They only say where to look: `HandOver` reads
each object before it does anything (docs/protocol.md, "Exceptions").
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
from sharder.controllers.movement.object_backlog import Limits, ObjectBacklog, Series
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
    """What is kept of a ring."""

    scope: tuple[object, ...] = ()
    placed: RingSnapshot | None = None
    """By which objects are placed as far as we know."""
    list_scope: ListScope = ()
    tasks: dict[Watch, asyncio.Task[None]] = field(default_factory=dict)
    backlogs: dict[ResourceKey, ObjectBacklog] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits(Limit(), Limit()))


class OrphanWatches:
    """Keeps the watches that the rings need, and has looked at what they show."""

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
        series: Series,
        clock: Clock,
        rng: Rng,
        roles: Collection[Role] = tuple(Role),
    ) -> None:
        """Start without watches.

        Args:
            cache: Has the rings.
            objects: What is watched.
            pending: Where objects wait to be looked at.
            forget: Called with a resource that is no resource of its ring any more.
            watching: Notes which watches are refused.
            on_change: Called when that changes for a ring.
            moved: Called when a main object of a ring begins or ceases to be an exception.
            drains: Is told of objects that are being drained.
            orphans: Asks what is known of objects without owner.
            overdue: Looks for those that are for too long, if anybody is to.
            series: Shows how many exceptions there are.
            clock: To tell their age by.
            rng: For the jitter of back-offs.
            roles: What is watched are resources of these.
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
        self._series = series
        self._clock = clock
        self._rng = rng
        self._rings: dict[RingName, _State] = {}
        self._stale = set[RingName]()
        self._changed = asyncio.Event()

    def ring_changed(self, ring: RingName) -> None:
        """Look again at what is to be watched of a ring."""
        self._stale.add(ring)
        self._changed.set()

    def recheck(self, ring: RingName) -> None:
        """Have all that is known to have no owner looked at: there is room again."""
        for backlogs in self._rings.get(ring, _State()).backlogs.values():
            backlogs.recheck()

    def overdue(self, ring: RingName) -> Overdue | None:
        """Return which drains of a ring are overdue, None if none is."""
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
                    self._series.hide_backlogs(*resource_key)

    def _adjust(self, ring: RingName, group: asyncio.TaskGroup) -> None:
        """Start and end watches, if what they cover has changed."""
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
        """Take note where objects may be wanted elsewhere: whoever leads asks for them then."""
        if state.placed is not None and not snapshot.places_like(state.placed):
            for seen in state.backlogs.values():
                seen.expect_drains()
        state.placed = snapshot

    def _draining(self) -> dict[ResourceKey, Backlog]:
        """Return what is being drained of the main resources of all rings."""
        return {
            resource_key: seen.draining
            for state in self._rings.values()
            for resource_key, seen in state.backlogs.items()
            if seen.role is not Role.CONTROLLED
        }

    def _end(self, state: _State) -> None:
        """Leave nothing of a ring that is gone."""
        for task in state.tasks.values():
            task.cancel()
        for resource_key in list(state.backlogs):
            self._drop(state, resource_key)

    def _see(self, snapshot: RingSnapshot, state: _State) -> None:
        """Remember exceptions of the ring's resources and of no others."""
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
            self._series.show_backlogs(*resource_key, unassigned=unassigned, draining=draining)

    def _drop(self, state: _State, resource_key: ResourceKey) -> None:
        state.backlogs.pop(resource_key).clear()
        self._orphans.forget(resource_key)
        self._series.hide_backlogs(*resource_key)
        self._forget(resource_key)

    async def _watch(self, watch: Watch, state: _State) -> None:
        """Follow for ever; begin anew where the resource is not served as it was.

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
        """Follow one request, by lists alone where it may not be watched."""
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
    """End the watch of a resource that is gone, or served in other versions only."""
    if isinstance(error, NotFound):
        raise error
