"""Feed a ring's tally from one watch, and buffer objects of unknown namespaces.

Namespaces have a watch of their own: an object can arrive before its namespace, so its entry is
buffered until the scope is known.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from sharder.controllers.cache import ClusterCache
from sharder.controllers.counting.unread_parts import BACKOFF
from sharder.controllers.scope import Part, selector_text
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.keys import main_key
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import identity_of
from sharder.core.placement.tally import NEWEST, Tally
from sharder.core.ring.snapshot import RingSnapshot, version_of
from sharder.ports import Changed, Listed, Objects, Removed
from sharder.runtime.backoff import Rng, failures_after
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices
from sharder.runtime.reflector import Polled, follow

GIVE_UP_SECONDS = 10.0
"""Seconds after which the other objects of a ring are placed without a part that cannot be
listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyPorts:
    """What all watches share."""

    cache: ClusterCache
    objects: Objects
    observe: Callable[[RingSnapshot, PartialObject], None]
    """Called with each object in scope, and again when it changes."""
    clock: Clock
    rng: Rng


class TallyWatch:
    """One part of a ring's tally, and its watch."""

    def __init__(
        self,
        ports: TallyPorts,
        group: asyncio.TaskGroup,
        *,
        part: Part,
        tally: Tally,
        on_change: Callable[[], None],
    ) -> None:
        """Begin to count the objects of a part; `on_change` is called after each attempt."""
        self.is_listed = False
        """Whether the whole part was counted."""
        self.is_given_up = False
        """Whether it cannot be listed, now or for a while."""
        self._on_change = on_change
        self._failing_since: float | None = None
        self._ports = ports
        self._part = part
        self._tally = tally
        self._early: dict[int, tuple[str, Entry]] = {}
        """Objects of unknown namespaces, and these."""
        self._unseen: set[int] | None = None
        """Identities of counted objects that the current list has not shown yet; None: no list."""
        self._task = group.create_task(self._run(), name=f"count {part}")

    def stop(self) -> None:
        """End the watch; the part stays in the tally."""
        self._task.cancel()

    async def _run(self) -> None:
        """Watch until cancelled; a resource that is not served has no objects."""
        failures, clock = 0, self._ports.clock
        while True:
            began = clock.monotonic()
            try:
                resource = await self._ports.objects.find(self._part.resource)
                # Cluster-scoped objects belong to another part, which the next snapshot adds.
                if resource.namespaced or not self._part.namespace:
                    await self._follow(resource)
            except NotFound:
                self._unseen = None
                await self._finish()
            except ApiError as error:
                self._note(error)
            failures = failures_after(failures, clock.monotonic() - began)
            await clock.sleep(BACKOFF.delay(failures, self._ports.rng))

    def recheck(self) -> None:
        """Count buffered objects whose namespaces are known now."""
        if self._unseen is not None:
            return
        snapshot = self._ports.cache.snapshot(self._part.ring)
        for identity, (namespace, entry) in list(self._early.items()):
            if self._is_known(namespace):
                del self._early[identity]
                if snapshot is not None and namespace in snapshot.namespaces:
                    self._tally.see(self._part, identity, entry)

    async def _follow(self, resource: Resource) -> None:
        snapshot = self._ports.cache.snapshot(self._part.ring)
        if snapshot is None:
            return
        store = self._ports.objects.of(
            resource,
            selector_text(snapshot.ring.spec.object_selector),
            namespace=self._part.namespace,
        )
        events = follow(
            Polled(store, clock=self._ports.clock, on_access=lambda _: None),
            doing=f"count {resource.id}",
            clock=self._ports.clock,
            rng=self._ports.rng,
            on_error=self._on_error,
            keep=self._list,
        )
        async with aclosing(events):
            async for event in events:
                match event:
                    case Listed():
                        await self._finish()
                    case Changed(obj):
                        self._see(obj, is_there=True)
                    case Removed(obj):
                        self._see(obj, is_there=False)

    def _on_error(self, error: ApiError | None) -> None:
        """Note errors and their end; end the watch of what is not served or forbidden."""
        if error is not None:
            self._unseen = None
            self._note(error)
        elif self._failing_since is not None and self._unseen is None:
            self._failing_since = None
            self._found(is_listed=True)  # the watch goes on without a new list
        if isinstance(error, NotFound | Forbidden):
            raise error

    def _note(self, error: ApiError) -> None:
        """Report the part as unreadable if it is forbidden, or was not listed for a while."""
        now = self._ports.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if isinstance(error, Forbidden) or now - self._failing_since >= GIVE_UP_SECONDS:
            self._found(is_listed=False)

    def _list(self, obj: PartialObject) -> bool:
        """Count an object of a page; return False, so that the list does not keep it."""
        unseen, found = self._begun(), self._entry(obj)
        if found is not None:
            unseen.discard(found[0])
            self._tally.see(self._part, *found, version_of(obj) or NEWEST)
        return False

    def _begun(self) -> set[int]:
        """Return what the current list has not shown yet; begin a list if there is none."""
        if self._unseen is None:
            self._unseen, self._early = self._tally.shown_by(self._part), {}
        return self._unseen

    async def _finish(self) -> None:
        """Remove objects that were not listed; admission can run in between."""
        async for identity in in_slices(self._begun(), self._ports.clock):
            self._tally.see(self._part, identity, None)
        self._failing_since = self._unseen = None
        self.recheck()
        self._found(is_listed=True)

    def _found(self, *, is_listed: bool) -> None:
        self.is_given_up, self.is_listed = not is_listed, self.is_listed or is_listed
        self._on_change()

    def _is_known(self, namespace: str) -> bool:
        """Return whether the namespace is known, and the ring's snapshot is up to date with it."""
        cache, ring = self._ports.cache, self._part.ring
        snapshot, selected = cache.snapshot(ring), cache.namespaces.selects(ring, namespace)
        return snapshot is not None and selected is (namespace in snapshot.namespaces)

    def _see(self, obj: PartialObject, *, is_there: bool) -> None:
        identity = identity_of(main_key(obj))
        self._early.pop(identity, None)
        found = self._entry(obj) if is_there else None
        if identity not in self._early:
            entry = None if found is None else found[1]
            self._tally.see(self._part, identity, entry, version_of(obj) or NEWEST)

    def _entry(self, obj: PartialObject) -> tuple[int, Entry] | None:
        """Return an object's identity and entry, None if it is out of scope or buffered."""
        snapshot = self._ports.cache.snapshot(self._part.ring)
        if snapshot is None or not snapshot.matches(obj):
            return None
        identity, entry = snapshot.identity_of(obj), snapshot.entry_of(obj)
        if snapshot.selects(obj):
            self._ports.observe(snapshot, obj)
            return identity, entry
        namespace = obj.metadata.namespace or obj.metadata.name  # a Namespace is its own
        if not self._is_known(namespace):
            self._early[identity] = namespace, entry
        return None
