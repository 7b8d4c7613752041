"""Watch the unassigned or the draining objects of one resource, and put them into the table."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from functools import partial
from sys import intern

from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.table import State
from sharder.controllers.ports import Ports
from sharder.controllers.scope import WHOLE, ListScope, Watch
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.movement.desired import choose
from sharder.core.movement.release import UNKNOWN, Release, fingerprint
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Changed, Event, Listed, Removed
from sharder.runtime.backoff import UNSERVED, failures_after
from sharder.runtime.reflector import Polled, follow
from sharder.runtime.task_pool import batch

_log = logging.getLogger(__name__)


class ObjectWatch:
    """Runs one watch, in as many requests as the rights need."""

    def __init__(
        self, ports: Ports, pending: HandoverQueue, watch: Watch, is_moving: Callable[[], bool]
    ) -> None:
        """`is_moving` returns whether objects can be released at any moment."""
        self._ports = ports
        self._clock = ports.clock
        self._pending = pending
        self._table = pending.table
        self._watch = watch
        self._part = watch.part
        self._state = State.DRAINING if watch.draining else State.UNASSIGNED
        self._is_moving = is_moving if watch.role is Role.LEADING else lambda: False

    async def run(self) -> None:
        """Watch until cancelled; start again if the resource changes.

        The resync reports a resource that cannot be read.
        """
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                await self._follow_all(await self._ports.objects.find(self._part.resource))
            except ApiError:
                failures = failures_after(failures, self._clock.monotonic() - began)
                await self._clock.sleep(UNSERVED.delay(failures, self._ports.rng))

    async def _follow_all(self, resource: Resource) -> None:
        requests = self._watch.list_scope if resource.namespaced else WHOLE
        if not requests:
            await asyncio.Event().wait()
        if len(requests) > 1:
            with suppress(Forbidden):
                await self._follow_each(resource, requests, end=Forbidden, polls=False)
            # Without the right to watch, one list for all namespaces is cheaper than many.
            with suppress(Forbidden):
                await self._follow_each(resource, WHOLE, end=Forbidden)
        await self._follow_each(resource, requests, end=NotFound)

    async def _follow_each(
        self,
        resource: Resource,
        requests: ListScope,
        *,
        end: type[ApiError],
        polls: bool = True,
    ) -> None:
        async with batch(len(requests)) as watches:
            for namespace in requests:
                await watches.add(self._follow(resource, namespace, end=end, polls=polls))

    async def _follow(
        self, resource: Resource, namespace: str, *, end: type[ApiError], polls: bool
    ) -> None:
        """Watch the objects of one request, or poll them without the right to watch.

        An error of the type `end`, and the end of the resource, are raised.
        """
        request, listed = object(), dict[ObjectRef, None]()

        def keep(obj: PartialObject) -> bool:
            # At once, so that lists that are read at the same time share the limit; and no list
            # is kept, because that of a new ring can have all objects of the cluster.
            if self._is_in_scope(obj) and self._enter(obj):
                listed[obj.metadata.ref] = None
            return False

        def on_error(error: ApiError | None) -> None:
            if error is not None:
                listed.clear()
            if isinstance(error, (NotFound, end)):
                raise error  # NotFound: the resource is gone or has another version

        source = Polled(
            self._ports.objects.of(resource, self._watch.labels, namespace=namespace),
            clock=self._clock,
            on_access=partial(self._note_right, request, polls=polls),
            is_expecting=self._is_moving,
        )
        events = follow(
            source,
            doing=f"watch {resource.id} with {self._watch.labels}",
            clock=self._clock,
            rng=self._ports.rng,
            on_error=on_error,
            keep=keep,
        )
        before = self._count()
        try:
            async with aclosing(events):
                async for event in events:
                    self._take(namespace, event, listed)
                    listed.clear()
                    if self._count() != before and self._watch.role is not Role.CONTROLLED:
                        self._ports.on_moved(self._part.ring)
                    before = self._count()
                    del event  # the next one can be days away
        finally:
            self._ports.watching.ended(self._part, request)

    def _count(self) -> int:
        return self._table.count(self._part.ring, self._state, self._part.resource)

    def _note_right(self, request: object, error: Forbidden | None, *, polls: bool) -> None:
        if error is not None and not polls:
            raise error
        if self._ports.watching.found(self._part, request, allowed=error is None):
            if error is not None:
                fields = {
                    "ring": self._part.ring,
                    "resource": str(self._part.resource),
                    "error": str(error),
                }
                _log.warning("watch forbidden, polling instead", extra=fields)
            self._ports.on_change(self._part.ring)

    # What the events say

    def _take(
        self, namespace: str, event: Event[PartialObject], listed: Iterable[ObjectRef]
    ) -> None:
        """Update the table; `listed` is what a list has shown, if the event is its end."""
        match event:
            case Listed():
                known = self._table.within(self._part._replace(namespace=namespace), self._state)
                for ref in [ref for ref in known if ref not in listed]:
                    self._end(ref)
                self._enqueue(listed)
            case Changed(obj) if self._is_in_scope(obj):
                key = self._part.key(obj.metadata.ref)
                self._table.stays(key, self._state, obj.metadata.resource_version)
                self._enqueue([key.ref] if self._enter(obj) else [])
            case Changed(obj) if self._state is State.DRAINING:
                self._table.leave(self._part.key(obj.metadata.ref), self._state)
            case Changed(obj):
                self._end(obj.metadata.ref)
            case Removed(obj):
                self._end(obj.metadata.ref, obj)

    def _is_in_scope(self, obj: PartialObject) -> bool:
        """Return whether the ring has the object; a controlled one also needs a controller.

        Nothing is stored about objects out of scope, however many there are.
        """
        role, snapshot = self._watch.role, self._snapshot()
        if snapshot is None or not snapshot.selects(obj, role):
            return False
        return role is not Role.CONTROLLED or obj.metadata.controller is not None

    def _enter(self, obj: PartialObject) -> bool:
        """Put an object into the table; return False at the limit."""
        key = self._part.key(ObjectRef(intern(obj.metadata.namespace), obj.metadata.name))
        shard = self._shard_of(obj) if self._state is State.DRAINING else UNKNOWN
        return self._table.enter(key, self._state, shard, obj.metadata.resource_version)

    def _enqueue(self, refs: Iterable[ObjectRef]) -> None:
        for ref in refs if self._state is State.UNASSIGNED else ():
            self._pending.add(self._part.key(ref), is_released=False)

    def _end(self, ref: ObjectRef, last: PartialObject | None = None) -> None:
        """Record that an object is no longer in the state: it has an owner, or is released.

        `last` is the object before the write that ended the state, but with the version of this
        write; None if only a list shows the end.
        """
        key = self._part.key(ref)
        if self._state is State.UNASSIGNED:
            self._pending.settle(key)
            return
        record, snapshot = self._table.record(key), self._snapshot()
        if last is None:
            record.release = Release(record.states[self._state].shard)
        elif snapshot is not None:
            # Our own write is known already, without the drain.
            version, proof = last.metadata.resource_version, fingerprint(last.metadata, snapshot)
            if record.release is None or record.release.version != version:
                record.release = Release(self._shard_of(last), version, proof)
            self._report(snapshot, last)
        self._pending.add(key, is_released=True)
        self._table.leave(key, self._state)

    def _report(self, snapshot: RingSnapshot, last: PartialObject) -> None:
        """Report the assignment of an object that leads no others: no watch shows it.

        The webhook writes it together with the release.  The shard depends only on the ring, or
        else is in the `next` of the drain.
        """
        if self._watch.role is Role.MAIN and snapshot.selects(last):
            follows, owner = snapshot.tally is None, self._shard_of(last)
            target = choose(snapshot, last).shard if follows else snapshot.direction_of(last)
            if target is not None and target != owner:  # otherwise the drain was withdrawn
                self._ports.on_assigned(snapshot.name, owner or None, target)

    def _snapshot(self) -> RingSnapshot | None:
        return self._ports.cache.snapshot(self._part.ring)

    def _shard_of(self, obj: PartialObject) -> ShardName:
        """Return the shard; one that releases in two writes can remove the owner label first."""
        snapshot = self._snapshot()
        owner = None if snapshot is None else snapshot.owner_of(obj)
        seen = self._table.get(self._part.key(obj.metadata.ref)).states.get(State.DRAINING)
        return owner or (UNKNOWN if seen is None else seen.shard)
