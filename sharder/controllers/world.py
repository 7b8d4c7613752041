"""What this process knows of the cluster: rings, Leases, namespaces, and a snapshot per ring.

Every replica has one.  Watches feed it, the webhook and the controllers read it; it decides
nothing and writes nothing.  All of it runs on one event loop, so that a change and the snapshot
that follows from it are one step to everybody else.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from sharder.api.lease import Lease
from sharder.api.meta import PartialObject
from sharder.api.ring import ControllerRing
from sharder.api.selector import LabelSelector
from sharder.building import build
from sharder.clock import Clock
from sharder.controllers.followup import FollowUp
from sharder.controllers.kinds import Kinds
from sharder.controllers.subscribers import Subscriber, Subscribers
from sharder.errors import ApiError, Expired
from sharder.membership import Membership
from sharder.names import RingName
from sharder.placement.strategy import CustomFunction
from sharder.ports import Changed, Listed, Objects, Removed, Watchable
from sharder.runtime.backoff import Rng
from sharder.runtime.watch import V, follow
from sharder.snapshot import RingSnapshot

KINDS_SECONDS = 30.0
"""Between two looks for resources of rings that were not served."""


class World:
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
        self._kinds = Kinds(objects)
        self._clock = clock
        self._rng = rng
        self._default = default_namespaces
        self._excluded = excluded
        self._custom = custom
        self.membership = Membership(clock.monotonic())
        self._rings: dict[RingName, ControllerRing] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._snapshots: dict[RingName, RingSnapshot] = {}
        self._unsynced = {"controllerrings", "leases", "namespaces"}
        self._errors: dict[str, ApiError] = {}
        self._subscribers = Subscribers()
        self._follow_up = FollowUp(self._catch_up, clock)

    def snapshot(self, ring: RingName) -> RingSnapshot | None:
        """Return the ring's snapshot; None if there is no such ring, or not all is known yet."""
        return self._snapshots.get(ring)

    def rings(self) -> tuple[RingName, ...]:
        """Return the names of all rings, in order."""
        return tuple(sorted(self._snapshots))

    def known_namespaces(self) -> Collection[str]:
        """Return the names of all namespaces, selected by a ring or not."""
        return self._namespaces.keys()

    def selected_by(self, ring: ControllerRing) -> frozenset[str]:
        """Return the names of the namespaces that a ring selects, whether it is stored or not."""
        selector = ring.spec.namespace_selector or self._default
        selected = (n for n, labels in self._namespaces.items() if selector.matches(labels))
        return frozenset(selected) - self._excluded

    def not_synced(self) -> str | None:
        """Return what is not known yet and why, None once everything has been listed."""
        if not self._unsynced:
            return None
        reasons = [f"{what}: {self._errors.get(what, 'no answer')}" for what in self._unsynced]
        return "cannot list " + "; ".join(sorted(reasons))

    def uncounted(self) -> tuple[RingName, ...]:
        """Return the rings whose objects are to be counted, and are not yet, in order."""
        tallies = ((name, self._snapshots[name].tally) for name in self.rings())
        return tuple(name for name, tally in tallies if tally is not None and not tally.synced)

    def is_current(self, snapshot: RingSnapshot) -> bool:
        """Tell whether steps decided from `snapshot` still stand for objects in scope.

        Namespaces come and go all the time: they take nothing back that concerns the others.
        While the watch of Leases is broken nothing stands: shards may be back unseen.  Nor while
        we have yet to follow up what we saw; then the next snapshot is told in any case.
        """
        if "leases" in self._errors or self._follow_up.is_owed(snapshot.name):
            return False
        current = self._snapshots.get(snapshot.name)
        return current is snapshot or (current is not None and current.places_like(snapshot))

    def note_outage(self, _error: ApiError | None) -> None:
        """Take note of an outage and of its end: meanwhile no shard could renew its Lease.

        Meant for everybody who calls the API server all the time, hence an `OnError`: the end
        is what None tells, the last error may lie a whole back-off before it.
        """
        self.membership.restart_observation(self._clock.monotonic())

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Tell `subscriber` of all changes, and first of everything that is there."""
        for name in self.rings():
            subscriber.ring(name)
            subscriber.steps(name)
            for lease in self._leases(name):
                subscriber.lease(lease.metadata.ref)
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
            group.create_task(self._follow_up.run(), name="late leases")
            group.create_task(self._follow_kinds(), name="kinds")

    async def _follow_rings(self, source: Watchable[ControllerRing]) -> None:
        async for event in self._follow(source, "controllerrings"):
            match event:
                case Listed(items):
                    await self._kinds.learn(items)
                    affected = set(self._rings) | {ring.name for ring in items}
                    self._rings = {ring.name: ring for ring in items}
                    self._synced("controllerrings", affected)
                case Changed(ring):
                    await self._kinds.learn((ring,))
                    self._rings[ring.name] = ring
                    self._rebuild({ring.name})
                case Removed(ring):
                    self._rings.pop(ring.name, None)
                    self._rebuild({ring.name})

    async def _follow_leases(self, source: Watchable[Lease]) -> None:
        async for event in self._follow(source, "leases"):
            now = self._clock.monotonic()
            match event:
                case Listed(items):
                    if "leases" in self._unsynced:
                        # Who is a stranger now may have been at work until this moment.
                        self.membership = Membership(now)
                    before = [lease for ring in self._rings for lease in self._leases(ring)]
                    affected = self.membership.replace(items, now)
                    self._synced("leases", {*self._rings, *affected})
                    self._subscribers.tell_leases([*before, *items])
                case Changed(lease):
                    self._follow_up.add(self.membership.see(lease, now), lease)
                case Removed(lease):
                    # Departures that are over are forgotten here, of whatever ring they were.
                    gone = self.membership.forget(lease, now)
                    self._follow_up.add({*self._rings, *gone}, lease)

    async def _follow_namespaces(self, source: Watchable[PartialObject]) -> None:
        async for event in self._follow(source, "namespaces"):
            match event:
                case Listed(items):
                    self._namespaces = {n.metadata.name: n.metadata.labels or {} for n in items}
                    self._synced("namespaces", self._rings)
                case Changed(namespace):
                    labels = namespace.metadata.labels or {}
                    before = self._namespaces.get(namespace.metadata.name)
                    self._namespaces[namespace.metadata.name] = labels
                    if before != labels:
                        self._follow_up.add(self._rings)
                case Removed(namespace):
                    self._namespaces.pop(namespace.metadata.name, None)
                    self._follow_up.add(self._rings)

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
                judged = now
                self._rebuild(self._rings)
            else:
                # A change that is due earlier may come to be known in the meantime.
                await self._clock.sleep(1.0 if due is None else min(1.0, max(0.05, due - now)))

    async def _follow_kinds(self) -> None:
        """Ask again for resources that were not served, or could not be asked for."""
        while True:
            await self._clock.sleep(KINDS_SECONDS)
            if await self._kinds.learn(self._rings.values()):
                self._rebuild(self._rings)

    def _catch_up(self, names: Collection[RingName], leases: Iterable[Lease]) -> None:
        if names:
            self._rebuild(names)
        self._subscribers.tell_leases(leases)

    def _note(self, what: str, error: ApiError | None) -> None:
        """Remember why a watch is broken; what was seen of Leases before counts no more."""
        known = self._errors.pop(what, None)
        if error is not None:
            self._errors[what] = error
        # A Lease that is the same after a list was not renewed in between: no silence of ours.
        if what == "leases" and not isinstance(error or known, Expired):
            self.note_outage(error)

    def _synced(self, what: str, affected: Iterable[RingName]) -> None:
        """Rebuild what a list affects: all rings if it was the last one missing."""
        first = bool(self._unsynced)
        self._unsynced.discard(what)
        self._rebuild(self._rings if first else affected)

    def _rebuild(self, names: Iterable[RingName]) -> None:
        """Swap in new snapshots, one assignment each, and tell who wants to know."""
        if self._unsynced:
            return
        with self._follow_up.working():
            self._rebuild_each(names)

    def _rebuild_each(self, names: Iterable[RingName]) -> None:
        for name in sorted(set(names)):
            before, ring = self._snapshots.get(name), self._rings.get(name)
            if ring is None:
                if self._snapshots.pop(name, None) is not None:
                    self._subscribers.tell_ring(name, steps=True)
                continue
            after = build(
                ring,
                members=self.membership.members(
                    name,
                    self._clock.monotonic(),
                    namespaces=ring.spec.shard_namespaces,
                    before=None if before is None else before.members,
                ),
                namespaces=self.selected_by(ring),
                served=self._kinds.of(ring),
                custom=self._custom,
                previous=before,
            )
            self._snapshots[name] = after
            alike = before is not None and before.decides_like(after)
            self._subscribers.tell_ring(name, steps=self._follow_up.was_doubted(name) or not alike)
            if before is None:
                self._subscribers.tell_leases(self._leases(name))

    def _leases(self, ring: RingName) -> list[Lease]:
        return [sighting.lease for sighting in self.membership.sightings(ring)]
