"""The cluster as this process last saw it: rings, Leases, namespaces, and a snapshot per ring.

Every replica has one cache.  Watches update it, and the webhook and the controllers read it.  It
makes no decisions, writes nothing, and runs on one event loop.

Changed rings are rebuilt one by one, and admission requests are answered in between.  A snapshot
can then be some milliseconds old, or some seconds if the Leases of its ring change all the time.

A write must not use a snapshot that lacks a change that can protect objects: `is_current` is False
for the ring from the arrival of such a change until its snapshot includes the change (see
`cache_events.py`).  `Membership.is_back` reports a single returned shard immediately.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from sharder.controllers.cache_events import (
    LEASES,
    Outage,
    RebuildThrottle,
    Subscriber,
    WatchHealth,
)
from sharder.controllers.ring_store import NamespaceSelection, RingStore
from sharder.core.api.lease import Lease
from sharder.core.api.meta import LabelSelector, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError
from sharder.core.leases.register import Membership
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Changed, Listed, Objects, Removed, Watchable
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import V, follow

WATCHES = ("controllerrings", LEASES, "namespaces")
"""The watches of every replica."""

Event: TypeAlias = Listed[V] | Changed[V] | Removed[V]


class ClusterCache:
    """The last known rings, Leases and namespaces, and the snapshots built from them."""

    def __init__(
        self,
        *,
        objects: Objects,
        clock: Clock,
        rng: Rng,
        default_namespaces: LabelSelector,
        excluded: frozenset[str],
        custom: Mapping[str, CustomFunction],
    ) -> None:
        """Start empty.

        `default_namespaces` selects the namespaces of rings without a selector, `excluded`
        namespaces are never selected, and `custom` has the installed strategies by name.
        """
        self._clock = clock
        self._rng = rng
        self.membership = Membership(clock.monotonic())
        self.namespaces = NamespaceSelection(excluded)
        self.health = WatchHealth(WATCHES, clock)
        self._throttle = RebuildThrottle(self._rebuild, clock)
        self.ring_store = RingStore(
            membership=self.membership,
            selections=self.namespaces,
            throttle=self._throttle,
            objects=objects,
            default_namespaces=default_namespaces,
            custom=custom,
            clock=clock,
        )
        self._subscribers: list[Subscriber] = []

    def snapshot(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot, None if there is no such ring, or before the first sync."""
        return self.ring_store.get(ring)

    def rings(self) -> tuple[RingName, ...]:
        """Return the names of all rings with a snapshot, sorted."""
        return self.ring_store.names()

    def is_scope_known(self, ring: RingName, namespace: str) -> bool:
        """Return whether the namespace is known, and the ring's snapshot is up to date with it."""
        snapshot, selected = self.ring_store.get(ring), self.namespaces.selects(ring, namespace)
        return snapshot is not None and selected is (namespace in snapshot.namespaces)

    def not_synced(self) -> str | None:
        """Return what is missing and why, None after the first sync."""
        missing = self.health.missing()
        if missing is None and not self._throttle.caught_up:
            return "not all rings have been reconciled yet"
        return missing

    def uncounted(self) -> tuple[RingName, ...]:
        """Return the rings whose objects are not counted yet, sorted."""
        found = filter(None, map(self.snapshot, self.rings()))
        return tuple(s.name for s in found if s.tally is not None and not s.tally.synced)

    def is_current(self, snapshot: RingSnapshot) -> bool:
        """Return whether steps decided from `snapshot` are still valid for objects in scope.

        A changed namespace does not invalidate steps in other namespaces.  No step is valid while
        the watch of Leases is broken, because shards can return unseen, or while a change that can
        protect objects is pending.  A new snapshot follows in both cases.
        """
        if not self.health.sees_leases() or self._throttle.is_pending(snapshot.name):
            return False
        current = self.ring_store.get(snapshot.name)
        return current is not None and current.epoch is snapshot.epoch

    def note_attempt(self, sent: float, answered: bool) -> None:  # noqa: FBT001 - an observer
        """Record a call to the API server that ends now and was sent at `sent` (monotonic).

        Callers with regular requests report them here: while the API server does not answer, no
        shard can renew its Lease.
        """
        self._note_outage(self.health.called(sent, answered=answered))

    def note_returned(self, ring: RingName, shard: ShardName) -> None:
        """Record that the API server showed a held Lease of a shard without a known Lease."""
        self.membership.returned(ring, shard, self._clock.monotonic())
        self._throttle.add({ring})

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Notify `subscriber` of all that exists, and of all changes while the body runs."""
        for name in self.rings():
            subscriber.ring(name)
            subscriber.steps(name)
            for ref in self._lease_refs(name):
                subscriber.lease(ref)
        for name in self.ring_store.unreadable.keys() - set(self.rings()):
            subscriber.ring(name)
        self._subscribers.append(subscriber)
        try:
            yield
        finally:
            self._subscribers.remove(subscriber)

    async def run(
        self,
        *,
        rings: Watchable[ControllerRing],
        leases: Watchable[Lease],
        namespaces: Watchable[PartialObject],
    ) -> None:
        """Watch the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(rings, "controllerrings", self.ring_store.store))
            group.create_task(self._follow_leases(leases))
            group.create_task(self._follow(namespaces, "namespaces", self._store_namespace))
            group.create_task(self._follow_time(), name="standings")
            group.create_task(self._throttle.run(), name="rebuilds")
            group.create_task(self.ring_store.learn_resources(), name="discovery")

    async def _follow(
        self, source: Watchable[V], what: str, store: Callable[[Event[V]], Awaitable[None]]
    ) -> None:
        doing, on_error = f"watch {what}", partial(self._note, what)
        events = follow(source, doing=doing, clock=self._clock, rng=self._rng, on_error=on_error)
        async for event in events:
            is_list = isinstance(event, Listed)
            self.health.saw(what, is_list=is_list)
            await store(event)
            if is_list and self.health.synced(what):
                self._throttle.begin(self.ring_store.known())

    async def _follow_leases(self, source: Watchable[Lease]) -> None:
        # The rings decide which Leases are kept, so they are listed first.
        await self.ring_store.listed.wait()
        await self._follow(source, LEASES, self._store_lease)

    async def _follow_time(self) -> None:
        """Rebuild rings whose standings change as time passes, until cancelled."""
        while True:
            self.health.runs()
            now = self._clock.monotonic()
            self._throttle.add(self.membership.due(now))
            # An earlier change can become known in the meantime.
            await self._clock.sleep(min(1.0, max(0.05, self.membership.next_change() - now)))

    async def _store_lease(self, event: Event[Lease]) -> None:
        """Store Leases; `Membership.is_back` reports a returned shard at once."""
        now = self._clock.monotonic()
        match event:
            case Listed(items):
                if not self.health.is_synced(LEASES):
                    # A shard that is unknown now might have worked until this moment.
                    self.membership.begin(now)
                known = [ref for ring in self.ring_store.rings for ref in self._lease_refs(ring)]
                self._throttle.block(self.membership.replace(items, now))
                self._notify_leases({*known, *(lease.metadata.ref for lease in items)})
            case Changed(lease):
                affected_by = self.membership.see(lease, now)
                if affected_by is not None:
                    self._throttle.add_paced(affected_by)
                    self._notify_leases({lease.metadata.ref})
            case Removed(lease):
                self._throttle.add_paced(self.membership.forget(lease, now))
                self._notify_leases({lease.metadata.ref})

    async def _store_namespace(self, event: Event[PartialObject]) -> None:
        match event:
            case Listed(items):
                labels = {n.metadata.name: n.metadata.labels or {} for n in items}
                self._throttle.add(self.namespaces.replace(labels))
            case Changed(namespace):
                meta = namespace.metadata
                self._throttle.add(self.namespaces.change(meta.name, meta.labels or {}))
            case Removed(namespace):
                self._throttle.add(self.namespaces.change(namespace.metadata.name, None))

    def _note(self, what: str, error: ApiError | None) -> None:
        """Record the state of a watch; a broken watch of Leases counts as an outage."""
        self._note_outage(self.health.noted(what, error))

    def _note_outage(self, outage: Outage | None) -> None:
        if outage is not None:
            self.membership.note_outage(*outage)

    async def _rebuild(self, name: RingName) -> None:
        """Replace a ring's snapshot, and notify the subscribers."""
        before, after = await self.ring_store.rebuild(name)
        if before is None or after is None:
            self._notify_ring(name, steps=before is not after)
            self._notify_leases(self._lease_refs(name))
            return
        if self._throttle.is_pending(name) or after.epoch is not before.epoch:
            # A step that was decided before a blocking change was refused.
            self._notify_ring(name, steps=True)
        else:
            if after.namespaces is not before.namespaces:
                for each in self._subscribers:
                    each.scope(name, after.namespaces - before.namespaces)
            if after.placer is not before.placer:  # it was rebuilt
                self._notify_ring(name, steps=False)
        was, is_ = before.members.validity.problems, after.members.validity.problems
        # Problems also change because of other Leases, or of the ring.
        self._notify_leases({ref for ref, _ in was.items() ^ is_.items()})

    def _notify_ring(self, name: RingName, *, steps: bool) -> None:
        """Notify of a changed ring; with `steps`, objects can need another step."""
        for subscriber in self._subscribers:
            subscriber.ring(name)
            if steps:
                subscriber.steps(name)

    def _notify_leases(self, refs: Iterable[ObjectRef]) -> None:
        for ref in refs:
            for subscriber in self._subscribers:
                subscriber.lease(ref)

    def _lease_refs(self, ring: RingName) -> list[ObjectRef]:
        return [observed.lease.metadata.ref for observed in self.membership.observed_leases(ring)]
