"""Run one watch of unassigned or draining objects, and update a backlog with its events."""

import asyncio
import logging
from contextlib import aclosing, suppress
from functools import partial

from sharder.controllers.movement.object_backlog import ObjectBacklog
from sharder.controllers.ports import Ports
from sharder.controllers.scope import WHOLE, ListScope, ResourceKey, Watch
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import Role
from sharder.runtime.backoff import UNSERVED, failures_after
from sharder.runtime.reflector import Polled, follow
from sharder.runtime.task_pool import batch

_log = logging.getLogger(__name__)


class WatchRunner:
    """Runs watches; it has no state of its own."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._clock = ports.clock

    async def run(self, watch: Watch, seen: ObjectBacklog) -> None:
        """Watch until cancelled; start again if the resource changes.

        The resync reports a resource that cannot be read.
        """
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                resource = await self._ports.objects.find(watch.resource_key.resource)
                await self._follow_all(watch, resource, seen)
            except ApiError:
                failures = failures_after(failures, self._clock.monotonic() - began)
                await self._clock.sleep(UNSERVED.delay(failures, self._ports.rng))

    async def _follow_all(self, watch: Watch, resource: Resource, seen: ObjectBacklog) -> None:
        requests = watch.list_scope if resource.namespaced else WHOLE
        if not requests:
            await asyncio.Event().wait()
        if len(requests) > 1:
            with suppress(Forbidden):
                await self._follow_each(watch, resource, requests, seen, polls=False)
            # Without the right to watch, one list for all namespaces is cheaper than many.
            with suppress(Forbidden):
                await self._follow(watch, resource, WHOLE[0], seen, end=Forbidden)
        await self._follow_each(watch, resource, requests, seen)

    async def _follow_each(
        self,
        watch: Watch,
        resource: Resource,
        requests: ListScope,
        seen: ObjectBacklog,
        *,
        polls: bool = True,
    ) -> None:
        end = NotFound if polls else Forbidden
        async with batch(len(requests)) as watches:
            for namespace in requests:
                follow = self._follow(watch, resource, namespace, seen, end=end, polls=polls)
                await watches.add(follow)

    async def _follow(
        self,
        watch: Watch,
        resource: Resource,
        namespace: str,
        seen: ObjectBacklog,
        *,
        end: type[ApiError],
        polls: bool = True,
    ) -> None:
        """Watch the objects of one request, or poll them without the right to watch.

        An error of the type `end`, and the end of the resource, are raised.
        """
        take = seen.take_draining if watch.draining else seen.take_unassigned
        note = seen.note_draining if watch.draining else seen.note_unassigned
        backlog = seen.draining if watch.draining else seen.unassigned
        request, (ring, _) = object(), watch.resource_key
        listed = dict[ObjectRef, ShardName]()

        def keep(obj: PartialObject) -> bool:
            # At once, so that lists that are read at the same time share the limit; and no list
            # is kept, because that of a new ring can have all objects of the cluster.
            shard = note(obj)
            if shard is not None:
                listed[obj.metadata.ref] = shard
            return False

        def on_error(error: ApiError | None) -> None:
            if error is not None:
                listed.clear()
            if isinstance(error, (NotFound, end)):
                raise error  # NotFound: the resource is gone or has another version

        source = Polled(
            self._ports.objects.of(resource, watch.labels, namespace=namespace),
            clock=self._clock,
            on_access=partial(self._note_right, watch.resource_key, request, polls=polls),
            is_expecting=seen.is_moving if watch.role is Role.LEADING else _never,
        )
        events = follow(
            source,
            doing=f"watch {resource.id} with {watch.labels}",
            clock=self._clock,
            rng=self._ports.rng,
            on_error=on_error,
            keep=keep,
        )
        before = backlog.count()
        try:
            async with aclosing(events):
                async for event in events:
                    take(namespace, event, listed)
                    listed.clear()
                    if backlog.count() != before and watch.role is not Role.CONTROLLED:
                        self._ports.on_moved(ring)
                    before = backlog.count()
                    del event  # the next one can be days away
        finally:
            self._ports.watching.ended(ring, resource.id, request)

    def _note_right(
        self,
        resource_key: ResourceKey,
        request: object,
        error: Forbidden | None,
        *,
        polls: bool,
    ) -> None:
        if error is not None and not polls:
            raise error
        if self._ports.watching.found(*resource_key, request, allowed=error is None):
            if error is not None:
                fields = {
                    "ring": resource_key.ring,
                    "resource": str(resource_key.resource),
                    "error": str(error),
                }
                _log.warning("watch forbidden, polling instead", extra=fields)
            self._ports.on_change(resource_key.ring)


def _never() -> bool:
    return False
