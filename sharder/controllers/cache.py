"""The cluster as this process last saw it: rings, Leases, namespaces, and a snapshot per ring.

Every replica has one cache.  Watches update it, and the webhook and the controllers read it.  It
makes no decisions, writes nothing, and runs on one event loop.

A ring is rebuilt as soon as a change of it arrives; of many rings, one after the other, and
admission requests are answered in between.  A snapshot can then be some milliseconds old, or some
seconds if the Leases of its ring change all the time.  `Membership.is_back` reports a single
returned shard immediately, and while the Leases are listed, `is_current` is False for all rings.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

from sharder.controllers.ring_store import NamespaceSelection, RingStore
from sharder.controllers.scope import splits
from sharder.core.api.lease import Lease
from sharder.core.api.meta import LabelSelector, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.leases.register import Membership
from sharder.core.leases.watch_health import LEASES, WatchHealth
from sharder.core.names import ObjectRef, RingName
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Changed, Event, Listed, Objects, Removed, Watchable
from sharder.runtime.allowance import Allowance
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ignore
from sharder.runtime.event_loop import in_slices
from sharder.runtime.reflector import V, follow

BURST: Final = 8
"""How many changes of a ring's Leases are applied without a delay."""

PACE_SECONDS: Final = 2.0
"""Seconds between two changes of a ring's Leases after the burst."""

DISCOVERY_SECONDS: Final = 30.0
"""Seconds between two discovery requests for resources that were not served."""

WATCHES = ("controllerrings", LEASES, "namespaces")
"""The watches of every replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """The callbacks of one subscriber; they run on the event loop and must not block."""

    ring: Callable[[RingName], None] = ignore
    """The ring, its members or its namespaces changed, or the ring was deleted."""
    steps: Callable[[RingName], None] = ignore
    """The ring changed so that any of its objects can need another step."""
    scope: Callable[[RingName, frozenset[str]], None] = ignore
    """Only the ring's namespaces changed; these were added to its scope."""
    lease: Callable[[ObjectRef], None] = ignore
    """A Lease was written or deleted."""


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
        self.health = WatchHealth(WATCHES, clock.monotonic, self.membership.note_outage)
        allowance = partial(Allowance, BURST, PACE_SECONDS)
        self._allowances = defaultdict[RingName, Allowance](allowance)
        self._late = set[RingName]()
        """Rings of which a changed Lease is not applied yet."""
        self.ring_store = RingStore(self.membership, objects)
        self._default = default_namespaces
        self._custom = custom
        self._snapshots: dict[RingName, RingSnapshot] = {}
        self._caught_up = False
        """Whether all rings were built after everything was listed."""
        self._subscribers: list[Subscriber] = []

    def snapshot(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot, None if there is no such ring, or before the first sync."""
        return self._snapshots.get(ring)

    def rings(self) -> tuple[RingName, ...]:
        """Return the names of all rings with a snapshot, sorted."""
        return tuple(sorted(self._snapshots))

    def not_synced(self) -> str | None:
        """Return what is missing and why, None after the first sync."""
        unbuilt = None if self._caught_up else "not all rings have been reconciled yet"
        return self.health.missing() or unbuilt

    def uncounted(self) -> tuple[RingName, ...]:
        """Return the rings whose objects are not counted yet, sorted."""
        tallies = ((name, self._snapshots[name].tally) for name in self.rings())
        return tuple(name for name, tally in tallies if tally is not None and not tally.synced)

    def is_current(self, snapshot: RingSnapshot) -> bool:
        """Return whether steps decided from `snapshot` are still valid for objects in scope.

        A changed namespace does not invalidate steps in other namespaces.  No step is valid while
        the watch of Leases is broken, because shards can return unseen.
        """
        current = self.snapshot(snapshot.name)
        is_same = current is not None and current.epoch is snapshot.epoch
        return is_same and self.health.sees_leases()

    async def note_answer(self, lease: Lease) -> None:
        """Record a Lease as the API server answered: the watch can be late."""
        await self._rebuild_paced(self.membership.answered(lease, self._clock.monotonic()))

    async def note_absence(self, ref: ObjectRef) -> None:
        """Record that the API server has no such Lease: the watch can be late."""
        await self._rebuild_paced(self.membership.forget(ref, self._clock.monotonic()))

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Notify `subscriber` of all that exists, and of all changes while the body runs."""
        for name in sorted(self.ring_store.known()):
            subscriber.ring(name)
            subscriber.steps(name)
            for ref in self.membership.refs(name):
                subscriber.lease(ref)
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
        await self._rebuild_all(self.ring_store.known())  # after a crash
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(rings, "controllerrings", self._store_ring))
            group.create_task(self._follow(leases, LEASES, self._store_lease))
            group.create_task(self._follow(namespaces, "namespaces", self._store_namespace))
            group.create_task(self._follow_time(), name="standings")
            group.create_task(self._learn_resources(), name="discovery")

    async def _follow(
        self, source: Watchable[V], what: str, store: Callable[[Event[V]], Awaitable[None]]
    ) -> None:
        if what == LEASES:
            # The rings decide which Leases are kept, so they are listed first.
            await self.ring_store.listed.wait()
        doing, on_error = f"watch {what}", partial(self.health.noted, what)
        events = follow(source, doing=doing, clock=self._clock, rng=self._rng, on_error=on_error)
        async for event in events:
            is_list = isinstance(event, Listed)
            self.health.saw(what, is_list=is_list)
            await store(event)
            if is_list and self.health.synced(what):
                await self._rebuild_all(self.ring_store.known())
                self._caught_up = True

    async def _follow_time(self) -> None:
        """Rebuild rings whose standings change as time passes, until cancelled."""
        while True:
            self.health.runs()
            now = self._clock.monotonic()
            await self._rebuild_all(self.membership.due(now))
            await self._rebuild_paced(())
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
                known = {*chain.from_iterable(map(self.membership.refs, self.ring_store.rings))}
                await self._rebuild_all(self.membership.replace(items, now))
                self._notify_leases(known | {lease.metadata.ref for lease in items})
            case Changed(lease) | Removed(lease):
                of, ref = self.membership, lease.metadata.ref
                affected = of.see(lease, now) if isinstance(event, Changed) else of.forget(ref)
                if affected is not None:
                    await self._rebuild_paced(affected)
                    self._notify_leases({ref})

    async def _store_namespace(self, event: Event[PartialObject]) -> None:
        await self._rebuild_all(self.namespaces.store(event))

    async def _store_ring(self, event: Event[ControllerRing]) -> None:
        changed = await self.ring_store.store(event)
        await self._rebuild_all(changed)
        for ring in changed & self.ring_store.unreadable.keys():
            self._notify_ring(ring, steps=False)

    async def _learn_resources(self) -> None:
        while True:
            await self._clock.sleep(DISCOVERY_SECONDS)
            if await self.ring_store.learn_resources():
                await self._rebuild_all(self.ring_store.rings)

    async def _rebuild_paced(self, rings: Iterable[RingName]) -> None:
        """Rebuild rings whose Leases have changed, at a limited rate.

        A client that can write Leases can change a ring's members any number of times per second,
        and each change invalidates the decisions in progress: long work, such as a rescue, has to
        make progress.
        """
        self._late.update(rings)
        now = self._clock.monotonic()
        due = {ring for ring in self._late if self._allowances[ring].take(now)}
        self._late -= due
        await self._rebuild_all(due)

    async def _rebuild_all(self, rings: Iterable[RingName]) -> None:
        """Rebuild rings; others can be added or removed meanwhile."""
        if self.health.missing() is None:
            async for ring in in_slices(sorted(rings), self._clock):
                self._rebuild(ring)

    def _rebuild(self, name: RingName) -> None:
        """Replace a ring's snapshot, or remove that of a deleted ring; notify the subscribers."""
        ring, before, after = self.ring_store.rings.get(name), self._snapshots.get(name), None
        if ring is not None:
            after = self._snapshots[name] = self._build(ring, before)
        else:
            self.namespaces.forget(name)
            self._snapshots.pop(name, None)
            self._allowances.pop(name, None)
        if before is None or after is None:
            self._notify_ring(name, steps=before is not after)
            self._notify_leases(self.membership.refs(name))
            return
        if after.epoch is not before.epoch:
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

    def _build(self, ring: ControllerRing, before: RingSnapshot | None) -> RingSnapshot:
        """Return the ring's current snapshot: `before` itself if nothing has changed."""
        namespaces = self.namespaces.of(ring.name, ring.spec.namespace_selector or self._default)
        members = self.membership.members(
            ring.name, self._clock.monotonic(), namespaces=ring.spec.shard_namespaces
        )
        snapshot, served = before, self.ring_store.served
        if (
            snapshot is None
            or snapshot.ring is not ring
            or snapshot.members is not members
            or len(snapshot.kinds) != sum(r.id in served for r in snapshot.resources)
        ):
            snapshot = build(
                ring,
                members=members,
                namespaces=namespaces,
                served=served.values(),
                custom=self._custom,
                previous=before,
            )
        known, resources = self.namespaces.known, len(snapshot.roles)
        is_split = splits(ring, namespaces, known, resources=resources)
        if snapshot.namespaces is namespaces and snapshot.is_split == is_split:
            return snapshot
        return replace(snapshot, namespaces=namespaces, is_split=is_split)

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
