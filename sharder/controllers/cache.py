"""The cluster as this process last saw it: rings, Leases, namespaces, and a snapshot per ring.

Every replica has one cache.  Watches update it, and the webhook and the controllers read it.  It
makes no decisions, writes nothing, and runs on one event loop.

Usually a change and its snapshot become visible in one step.  When many rings or Leases change,
the snapshots are rebuilt in slices, and admission requests are answered between the slices.  A
snapshot can then be some milliseconds old, or some seconds if the Leases of its ring change all
the time.

A write must not use a snapshot that lacks a change that can protect objects: `is_current` is False
for the ring from the arrival of such a change until its snapshot includes the change (see
`cache_events.py`).  `Membership.is_back` reports a single returned shard immediately.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from sharder.controllers.cache_events import RebuildThrottle, Subscriber, Subscribers
from sharder.controllers.lease_feed import LeaseFeed
from sharder.controllers.namespace_selection import NamespaceSelection
from sharder.controllers.rest_mapper import RestMapper
from sharder.controllers.ring_feed import RingFeed
from sharder.controllers.snapshot_store import SnapshotStore
from sharder.controllers.watch_health import LEASES, WatchHealth
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.api.selector import LabelSelector
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
        rest_mapper = RestMapper(objects)
        self._clock = clock
        self._rng = rng
        self._default = default_namespaces
        self.membership = Membership(clock.monotonic())
        self._selections = NamespaceSelection(excluded)
        self._snapshots = SnapshotStore(
            membership=self.membership,
            selections=self._selections,
            rest_mapper=rest_mapper,
            default_namespaces=default_namespaces,
            custom=custom,
            clock=clock,
        )
        self._health = WatchHealth(WATCHES, clock)
        self._subscribers = Subscribers()
        self._throttle = RebuildThrottle(self._rebuild, self._subscribers.notify_leases, clock)
        self._ring_feed = RingFeed(
            rest_mapper=rest_mapper,
            membership=self.membership,
            throttle=self._throttle,
            subscribers=self._subscribers,
            prepare=self._prepare,
            on_synced=partial(self._synced, "controllerrings"),
            clock=clock,
        )
        self._lease_feed = LeaseFeed(
            membership=self.membership,
            health=self._health,
            throttle=self._throttle,
            known=lambda: [
                lease for ring in self._ring_feed.rings for lease in self._leases(ring)
            ],
            prepare=self._prepare_all,
            on_synced=partial(self._synced, LEASES),
            clock=clock,
        )

    def snapshot(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot, None if there is no such ring, or before the first sync."""
        return self._snapshots.get(ring)

    def rings(self) -> tuple[RingName, ...]:
        """Return the names of all rings with a snapshot, sorted."""
        return self._snapshots.rings()

    def knows(self, ring: RingName) -> bool:
        """Return whether the ring exists, with or without a snapshot."""
        return self._ring_feed.knows(ring)

    def unreadable_rings(self) -> frozenset[RingName]:
        """Return the names of the rings that cannot be decoded."""
        return frozenset(self._ring_feed.unreadable)

    def unreadable(self, ring: RingName) -> UnreadableRing | None:
        """Return the ring if it cannot be decoded; its snapshot shows its last readable state."""
        return self._ring_feed.unreadable.get(ring)

    def known_namespaces(self) -> frozenset[str]:
        """Return the names of all namespaces, whether a ring selects them or not."""
        return self._selections.known

    def is_scope_known(self, ring: RingName, namespace: str) -> bool:
        """Return whether the namespace is known, and the ring's snapshot is up to date with it."""
        snapshot, selected = self._snapshots.get(ring), self._selections.selects(ring, namespace)
        return snapshot is not None and selected is (namespace in snapshot.namespaces)

    def began_empty(self, ring: RingName, namespace: str) -> bool:
        """Return whether the namespace has been in the ring's scope since its creation."""
        return self._selections.is_fresh(ring, namespace)

    def selected_by(self, ring: ControllerRing) -> frozenset[str]:
        """Return the names of the namespaces that a ring selects; the ring need not be stored."""
        return self._selections.matching(ring.spec.namespace_selector or self._default)

    def not_synced(self) -> str | None:
        """Return what is missing and why, None after the first sync."""
        missing = self._health.missing()
        if missing is None and not self._throttle.caught_up:
            return "not all rings have been reconciled yet"
        return missing

    def uncounted(self) -> tuple[RingName, ...]:
        """Return the rings whose objects are not counted yet, sorted."""
        return self._snapshots.uncounted()

    def is_current(self, snapshot: RingSnapshot) -> bool:
        """Return whether steps decided from `snapshot` are still valid for objects in scope.

        A changed namespace does not invalidate steps in other namespaces.  No step is valid while
        the watch of Leases is broken, because shards can return unseen, or while a change that can
        protect objects is pending.  A new snapshot follows in both cases.
        """
        if not self._health.sees_leases() or self._throttle.is_pending(snapshot.name):
            return False
        current = self._snapshots.get(snapshot.name)
        return current is not None and current.epoch is snapshot.epoch

    def sees(self, watch: str) -> bool:
        """Return whether the watch, one of `WATCHES`, works."""
        return self._health.is_healthy(watch)

    def is_stale(self) -> bool:
        """Return whether Leases were not seen for so long that shards can have come and gone."""
        return self._health.is_stale()

    def note_attempt(self, sent: float, answered: bool) -> None:  # noqa: FBT001 - an observer
        """Record a call to the API server that ends now and was sent at `sent` (monotonic).

        Callers with regular requests report them here: while the API server does not answer, no
        shard can renew its Lease.
        """
        blind = self._health.called(sent, answered=answered)
        if blind is not None:
            self.membership.note_outage(*blind)

    def note_returned(self, ring: RingName, shard: ShardName) -> None:
        """Record that the API server showed a held Lease of a shard without a known Lease."""
        self.membership.returned(ring, shard, self._clock.monotonic())
        self._throttle.add_harmless({ring})

    def note_absent(self, ring: RingName, shard: ShardName, *, is_released: bool) -> None:
        """Record that it showed none; `is_released`: it showed one that was given up."""
        now = self._clock.monotonic()
        self.membership.absent(ring, shard, now, is_released=is_released)
        self._throttle.add_harmless({ring})

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Notify `subscriber` of all that exists, and of all changes while the body runs."""
        for name in self.rings():
            subscriber.ring(name)
            subscriber.steps(name)
            for lease in self._leases(name):
                subscriber.lease(lease.metadata.ref)
        for name in self._ring_feed.unreadable.keys() - set(self.rings()):
            subscriber.ring(name)
        with self._subscribers.adding(subscriber):
            yield

    async def run(
        self,
        *,
        rings: Watchable[ControllerRing],
        leases: Watchable[Lease],
        namespaces: Watchable[PartialObject],
    ) -> None:
        """Watch the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            watch = self._follow(rings, "controllerrings")
            group.create_task(self._ring_feed.run(watch), name="watch controllerrings")
            group.create_task(self._follow_leases(leases), name="watch leases")
            group.create_task(self._follow_namespaces(namespaces), name="watch namespaces")
            group.create_task(self._lease_feed.follow_time(), name="standings")
            group.create_task(self._throttle.run(), name="rebuilds")
            group.create_task(self._ring_feed.learn_resources(), name="discovery")

    async def _follow_leases(self, source: Watchable[Lease]) -> None:
        # The rings decide which Leases are kept, so they are listed first.
        await self._ring_feed.listed.wait()
        await self._lease_feed.run(self._follow(source, LEASES))

    async def _follow_namespaces(self, source: Watchable[PartialObject]) -> None:
        async for event in self._follow(source, "namespaces"):
            match event:
                case Listed(items):
                    labels = {n.metadata.name: n.metadata.labels or {} for n in items}
                    self._throttle.add_harmless(self._selections.replace(labels))
                    self._synced("namespaces")
                case Changed(namespace):
                    meta = namespace.metadata
                    changed = self._selections.change(meta.name, meta.labels or {})
                    self._throttle.add_harmless(changed)
                case Removed(namespace):
                    changed = self._selections.change(namespace.metadata.name, None)
                    self._throttle.add_harmless(changed)

    def _follow(
        self, source: Watchable[V], what: str
    ) -> AsyncGenerator[Listed[V] | Changed[V] | Removed[V], None]:
        doing, on_error = f"watch {what}", partial(self._note, what)
        return follow(source, doing=doing, clock=self._clock, rng=self._rng, on_error=on_error)

    def _note(self, what: str, error: ApiError | None) -> None:
        """Record the state of a watch; a broken watch of Leases counts as an outage."""
        blind = self._health.noted(what, error)
        if blind is not None:
            self.membership.note_outage(*blind)

    def _synced(self, what: str) -> None:
        """Build the first snapshots after everything was listed."""
        if self._health.synced(what):
            self._throttle.begin(self._ring_feed.rings)

    async def _prepare_all(self) -> None:
        for ring in list(self._ring_feed.rings.values()):
            await self._prepare(ring)

    async def _prepare(self, ring: ControllerRing) -> None:
        """Do the longest part of a large rebuild in advance."""
        for _ in self._snapshots.hashing(ring):
            await asyncio.sleep(0)

    def _rebuild(self, name: RingName) -> None:
        """Replace a ring's snapshot by one assignment, and notify the subscribers."""
        before, ring = self._snapshots.get(name), self._ring_feed.rings.get(name)
        was_asked = self._throttle.was_asked(name)
        if ring is None:
            if self._snapshots.remove(name) is not None:
                self._subscribers.notify_ring(name, steps=True)
            return
        after = self._snapshots.rebuild(ring)
        if before is None:
            self._subscribers.notify_ring(name, steps=True)
            self._throttle.notify_soon(self._leases(name))
            return
        if was_asked or after.epoch is not before.epoch:
            self._subscribers.notify_ring(name, steps=True)
        else:
            self._notify_rest(before, after)
        if changed := _judged_anew(before, after):
            known = self._leases(name)
            self._throttle.notify_soon(each for each in known if each.metadata.ref in changed)

    def _notify_rest(self, before: RingSnapshot, after: RingSnapshot) -> None:
        """Notify of a change that does not change the steps of objects in scope."""
        if after.namespaces is not before.namespaces:
            self._subscribers.notify_scope(after.name, after.namespaces - before.namespaces)
        if after.placer is not before.placer:  # it was rebuilt
            self._subscribers.notify_ring(after.name, steps=False)

    def _leases(self, ring: RingName) -> list[Lease]:
        return [observed.lease for observed in self.membership.observed_leases(ring)]


def _judged_anew(before: RingSnapshot, after: RingSnapshot) -> set[ObjectRef]:
    """Return the Leases whose problems changed, because of other Leases or of the ring."""
    was, is_ = before.members.validity.problems, after.members.validity.problems
    return {ref for ref, _ in was.items() ^ is_.items()}
