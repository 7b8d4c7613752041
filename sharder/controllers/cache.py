"""What this process knows of the cluster: rings, Leases, namespaces, and a snapshot per ring.

Every replica has one.  Watches feed it, the webhook and the controllers read it; it decides
nothing and writes nothing.  All of it runs on one event loop.

A change and the snapshot that follows from it are one step to everybody else as long as there is
little to do.  Where many rings or Leases change, the snapshots follow in slices, so that admission
is answered in between: it may go by a snapshot that is some milliseconds old, or some seconds
where a ring's Leases change all the time.  A write may not, where objects may have to be
protected: `is_current` is False for a ring from the moment such a change is seen until the ring's
snapshot knows of it (`sharder/controllers/cache_events.py`), and of a single shard that is back
`Membership.is_back` tells at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial

from sharder.controllers.cache_events import RebuildThrottle, Subscriber, Subscribers
from sharder.controllers.namespace_selection import NamespaceSelection
from sharder.controllers.rest_mapper import RestMapper
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ApiError, Expired
from sharder.core.leases.outages import Sight
from sharder.core.leases.register import Membership
from sharder.core.names import RingName
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Changed, Listed, Objects, Removed, Watchable
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import V, follow

DISCOVERY_SECONDS = 30.0
"""Between two looks for resources of rings that were not served."""


class ClusterCache:
    """Rings, Leases and namespaces as last seen, and the snapshots built from them."""

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

        Args:
            objects: To ask for the kinds of the rings' resources.
            clock: To observe Leases by.
            rng: For the jitter of back-offs.
            default_namespaces: Selects for rings that do not say.
            excluded: Namespaces that no ring selects, whatever it says.
            custom: The installed strategies, by name.
        """
        self._rest_mapper = RestMapper(objects)
        self._clock = clock
        self._rng = rng
        self._default = default_namespaces
        self._custom = custom
        self.membership = Membership(clock.monotonic())
        self._rings: dict[RingName, ControllerRing] = {}
        self._rings_listed = asyncio.Event()
        self._selections = NamespaceSelection(excluded)
        self._unreadable: dict[RingName, UnreadableRing] = {}
        """Rings as they are now that cannot be decoded; `_rings` has the last state that could."""
        self._snapshots: dict[RingName, RingSnapshot] = {}
        self._unsynced = {"controllerrings", "leases", "namespaces"}
        self._errors: dict[str, ApiError] = {}
        self._sight = Sight(clock.monotonic())
        self._subscribers = Subscribers()
        self._throttle = RebuildThrottle(self._rebuild, self._subscribers.notify_leases, clock)

    def snapshot(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot; None if there is no such ring, or not all is known yet."""
        return self._snapshots.get(ring)

    def rings(self) -> tuple[RingName, ...]:
        """Return the names of all rings, in order."""
        return tuple(sorted(self._snapshots))

    def knows(self, ring: RingName) -> bool:
        """Tell whether there is such a ring, also if it has no snapshot."""
        return ring in self._rings or ring in self._unreadable

    def unreadable(self, ring: RingName) -> UnreadableRing | None:
        """Return the ring if it cannot be decoded; its snapshot is of what it was before."""
        return self._unreadable.get(ring)

    def known_namespaces(self) -> frozenset[str]:
        """Return the names of all namespaces, selected by a ring or not."""
        return self._selections.known

    def is_scope_known(self, ring: RingName, namespace: str) -> bool:
        """Tell whether the namespace has been seen, and the ring's snapshot was built with it."""
        snapshot, selected = self._snapshots.get(ring), self._selections.selects(ring, namespace)
        return snapshot is not None and selected is (namespace in snapshot.namespaces)

    def began_empty(self, ring: RingName, namespace: str) -> bool:
        """Tell whether the namespace has been in the ring's scope since it was created."""
        return self._selections.is_fresh(ring, namespace)

    def selected_by(self, ring: ControllerRing) -> frozenset[str]:
        """Return the names of the namespaces that a ring selects, whether it is stored or not."""
        return self._selections.matching(ring.spec.namespace_selector or self._default)

    def not_synced(self) -> str | None:
        """Return what is not known yet and why, None once everything has been listed."""
        if not self._unsynced:
            return None if self._throttle.caught_up else "not all rings have been reconciled yet"
        reasons = [
            f"{what}: {self._errors.get(what, 'no response yet')}" for what in self._unsynced
        ]
        return "cannot list " + "; ".join(sorted(reasons))

    def uncounted(self) -> tuple[RingName, ...]:
        """Return the rings whose objects are to be counted, and are not yet, in order."""
        tallies = ((name, self._snapshots[name].tally) for name in self.rings())
        return tuple(name for name, tally in tallies if tally is not None and not tally.synced)

    def is_current(self, snapshot: RingSnapshot) -> bool:
        """Tell whether steps decided from `snapshot` still stand for objects in scope.

        Namespaces come and go all the time: they take nothing back that concerns the others.
        While the watch of Leases is broken nothing stands: shards may be back unseen.  Nor while
        we have yet to follow up what we saw, if that may protect objects; then the next snapshot
        is told in any case.
        """
        if "leases" in self._errors or self._throttle.is_pending(snapshot.name):
            return False
        current = self._snapshots.get(snapshot.name)
        return current is not None and current.epoch is snapshot.epoch

    def is_stale(self) -> bool:
        """Tell whether Leases were out of sight for so long that shards may have come and gone."""
        return self._sight.is_stale(self._clock.monotonic())

    def note_attempt(self, sent: float, answered: bool) -> None:  # noqa: FBT001 - an observer
        """Take note of a call to the API server that ends now, sent at `sent` (monotonic).

        Meant for whoever calls it all the time: while it does not answer no shard renews.
        """
        blind = self._sight.called(
            sent, self._clock.monotonic(), answered=answered, watches="leases" not in self._errors
        )
        if blind is not None:
            self.membership.note_outage(*blind)

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Tell `subscriber` of all changes, and first of everything that is there."""
        for name in self.rings():
            subscriber.ring(name)
            subscriber.steps(name)
            for lease in self._leases(name):
                subscriber.lease(lease.metadata.ref)
        for name in self._unreadable.keys() - self._snapshots.keys():
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
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_rings(rings), name="watch controllerrings")
            group.create_task(self._follow_leases(leases), name="watch leases")
            group.create_task(self._follow_namespaces(namespaces), name="watch namespaces")
            group.create_task(self._follow_time(), name="standings")
            group.create_task(self._throttle.run(), name="late leases")
            group.create_task(self._learn_resources(), name="kinds")

    async def _follow_rings(self, source: Watchable[ControllerRing]) -> None:
        async for event in self._follow(source, "controllerrings"):
            match event:
                case Listed(items):
                    await self._rest_mapper.learn(items)
                    known = self._rings.keys() | self._unreadable.keys()
                    for name in known - {ring.name for ring in items}:
                        self._forget_ring(name)
                    for ring in items:
                        self._see_ring(ring)
                    self._rings_listed.set()
                    self._synced("controllerrings")
                case Changed(ring):
                    await self._rest_mapper.learn((ring,))
                    self._see_ring(ring)
                case Removed(ring):
                    self._forget_ring(ring.name)

    def _forget_ring(self, name: RingName) -> None:
        self._rings.pop(name, None)
        self._throttle.add({name})
        if self._unreadable.pop(name, None) is not None:
            self._subscribers.notify_ring(name, steps=False)

    def _see_ring(self, ring: ControllerRing) -> None:
        """Take note of a ring; by another status no step becomes wrong."""
        before = self._rings.get(ring.name)
        if isinstance(ring, UnreadableRing):
            # What runs by the last state that could be read goes on, unless that was another ring.
            if before is not None and before.metadata.uid != ring.metadata.uid:
                self._forget_ring(ring.name)
            self._unreadable[ring.name] = ring
            self._subscribers.notify_ring(ring.name, steps=False)
            return
        if self._unreadable.pop(ring.name, None) is not None:
            self._subscribers.notify_ring(ring.name, steps=False)
        self._rings[ring.name] = ring
        self.membership.expect(ring.name, ring.spec.shard_namespaces)
        if before is None or _identity(before) != _identity(ring):
            self._throttle.add({ring.name})
        elif before != ring:
            self._throttle.add_harmless({ring.name})

    async def _follow_leases(self, source: Watchable[Lease]) -> None:
        # What is kept of Leases depends on the rings, so those come first.
        await self._rings_listed.wait()
        while True:
            async with aclosing(self._follow(source, "leases")) as events:
                async for event in events:
                    now = self._clock.monotonic()
                    self._sight.saw(now)
                    if isinstance(event, Listed):
                        self._errors.setdefault("leases", Expired("Leases are being listed"))
                    await self._take_in(event, now)
                    if self.membership.wants_list(now):
                        break
            # Until they are listed shards may be back unseen.
            self._errors["leases"] = Expired("some Leases were forgotten")

    async def _take_in(
        self, event: Listed[Lease] | Changed[Lease] | Removed[Lease], now: float
    ) -> None:
        """Take note of Leases; of a shard that is back `Membership.is_back` tells at once."""
        match event:
            case Listed(items):
                if "leases" in self._unsynced:
                    # Who is a stranger now may have been at work until this moment.
                    self.membership.begin(now)
                before = [lease for ring in self._rings for lease in self._leases(ring)]
                affected = set[RingName]()
                for some in self.membership.replacing(items, now):
                    affected |= some
                    await asyncio.sleep(0)
                self._errors.pop("leases", None)
                kept = (item for item in items if self.membership.keeps(item.metadata.ref))
                self._throttle.add(affected, *before, *kept)
                self._synced("leases")
            case Changed(lease):
                self._throttle.add_paced(self.membership.see(lease, now), lease)
            case Removed(lease):
                self._throttle.add_paced(self.membership.forget(lease, now), lease)

    async def _follow_namespaces(self, source: Watchable[PartialObject]) -> None:
        async for event in self._follow(source, "namespaces"):
            match event:
                case Listed(items):
                    labels = {n.metadata.name: n.metadata.labels or {} for n in items}
                    self._throttle.add_harmless(self._selections.replace(labels))
                    self._synced("namespaces")
                case Changed(namespace):
                    meta = namespace.metadata
                    self._throttle.add_harmless(
                        self._selections.change(meta.name, meta.labels or {})
                    )
                case Removed(namespace):
                    self._throttle.add_harmless(
                        self._selections.change(namespace.metadata.name, None)
                    )

    def _follow(
        self, source: Watchable[V], what: str
    ) -> AsyncGenerator[Listed[V] | Changed[V] | Removed[V], None]:
        return follow(
            source,
            doing=f"watch {what}",
            clock=self._clock,
            rng=self._rng,
            on_error=partial(self._note, what),
        )

    async def _follow_time(self) -> None:
        """Rebuild when a standing changes by the mere passing of time."""
        judged = self._clock.monotonic()
        while True:
            due = self.membership.next_change(judged)
            now = self._clock.monotonic()
            if due is not None and due <= now:
                rings, judged = self.membership.due(judged, now), now
                self._throttle.add_harmless(rings)
            else:
                # A change that is due earlier may come to be known in the meantime.
                await self._clock.sleep(1.0 if due is None else min(1.0, max(0.05, due - now)))

    async def _learn_resources(self) -> None:
        """Ask again for resources that were not served, or could not be asked for."""
        while True:
            await self._clock.sleep(DISCOVERY_SECONDS)
            if await self._rest_mapper.learn(self._rings.values()):
                self._throttle.add(self._rings)

    def _note(self, what: str, error: ApiError | None) -> None:
        """Remember why a watch is broken; what was seen of Leases before counts no more."""
        known = self._errors.pop(what, None)
        if error is not None:
            self._errors[what] = error
        # A Lease that is the same after a list was not renewed in between: no silence of ours.
        if what == "leases" and not isinstance(error or known, Expired):
            blind = self._sight.watched(self._clock.monotonic(), stands=error is None)
            self.membership.note_outage(*blind)

    def _synced(self, what: str) -> None:
        """Begin to build snapshots once nothing is missing any more."""
        if what in self._unsynced:
            self._unsynced.discard(what)
            if not self._unsynced:
                self._throttle.begin(self._rings)

    def _rebuild(self, name: RingName) -> None:
        """Swap in a ring's new snapshot by one assignment, and tell who wants to know."""
        before, ring = self._snapshots.get(name), self._rings.get(name)
        was_asked = self._throttle.was_asked(name)
        if ring is None:
            self._selections.forget(name)
            if self._snapshots.pop(name, None) is not None:
                self._subscribers.notify_ring(name, steps=True)
            return
        after = self._build(ring, before)
        self._snapshots[name] = after
        if before is None:
            self._subscribers.notify_ring(name, steps=True)
            self._throttle.notify_soon(self._leases(name))
        elif was_asked or after.epoch is not before.epoch:
            self._subscribers.notify_ring(name, steps=True)
        else:
            self._notify_rest(before, after)

    def _notify_rest(self, before: RingSnapshot, after: RingSnapshot) -> None:
        """Tell what has changed although every object in scope keeps its step."""
        if after.namespaces is not before.namespaces:
            self._subscribers.notify_scope(after.name, after.namespaces - before.namespaces)
        if after.placer is not before.placer:  # it was built anew
            self._subscribers.notify_ring(after.name, steps=False)

    def _build(self, ring: ControllerRing, before: RingSnapshot | None) -> RingSnapshot:
        """Return the ring's snapshot of now: `before` itself as far as nothing has changed."""
        namespaces = self._selections.of(ring.name, ring.spec.namespace_selector or self._default)
        members = self.membership.members(
            ring.name,
            self._clock.monotonic(),
            namespaces=ring.spec.shard_namespaces,
            before=None if before is None else before.members,
        )
        served = tuple(self._rest_mapper.of(ring))
        if (
            before is not None
            and before.ring is ring
            and before.members is members
            and len(before.kinds) == len(served)
        ):
            return (
                before
                if before.namespaces is namespaces
                else replace(before, namespaces=namespaces)
            )
        return build(
            ring,
            members=members,
            namespaces=namespaces,
            served=served,
            custom=self._custom,
            previous=before,
        )

    def _leases(self, ring: RingName) -> list[Lease]:
        return [sighting.lease for sighting in self.membership.observed_leases(ring)]


def _identity(ring: ControllerRing) -> tuple[str, int]:
    """Return by what two states of a ring are told apart that lead to different steps."""
    return ring.metadata.uid, ring.metadata.generation
