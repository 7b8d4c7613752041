"""Run one watch of unassigned or draining objects, and update a backlog with its events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Generic, TypeVar

from sharder.controllers.movement.object_backlog import ObjectBacklog
from sharder.controllers.movement.ports import Ports
from sharder.controllers.scope import WHOLE, ListRequest, ListScope, ResourceKey, Watch
from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.ring.snapshot import Role
from sharder.ports import Listed, Watchable, WatchEvent
from sharder.runtime.backoff import UNSERVED, failures_after
from sharder.runtime.reflector import Polled, follow
from sharder.runtime.task_pool import batch

T = TypeVar("T")

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
            for part in requests:
                follow = self._follow(watch, resource, part, seen, end=end, polls=polls)
                await watches.add(follow)

    async def _follow(
        self,
        watch: Watch,
        resource: Resource,
        part: ListRequest,
        seen: ObjectBacklog,
        *,
        end: type[ApiError],
        polls: bool = True,
    ) -> None:
        """Watch the objects of one request, or poll them without the right to watch.

        An error of the type `end`, and the end of the resource, are raised.
        """
        take = seen.take_draining if watch.draining else seen.take_unassigned
        pick = seen.pick_draining if watch.draining else seen.pick_unassigned
        backlog = seen.draining if watch.draining else seen.unassigned
        request, (ring, _) = object(), watch.resource_key
        source = Polled(
            self._ports.objects.of(resource, watch.labels, namespace=part.namespace),
            clock=self._clock,
            on_access=partial(self._note_right, watch.resource_key, request, polls=polls),
            is_expecting=seen.is_moving if watch.role is Role.LEADING else _never,
        )
        events = follow(
            Picked(source, pick),
            doing=f"watch {resource.id} with {watch.labels}",
            clock=self._clock,
            rng=self._ports.rng,
            on_error=partial(_raise, (NotFound, end)),
        )
        before = backlog.count()
        try:
            async with aclosing(events):
                async for event in events:
                    take(part, event)
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


class Picked(Generic[T]):
    """Lists what `pick` returns for each object, page by page; watches are unchanged.

    A list of the unassigned objects of a new ring can have all objects of the cluster.
    """

    def __init__(self, inner: Watchable[T], pick: Callable[[T], T | None]) -> None:
        """`pick` returns what to keep of a listed object, None to skip it."""
        self._inner = inner
        self._pick = pick

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return what `pick` returned for all objects, or only for those that `keep` accepts."""
        picked = list[T]()

        def visit(obj: T) -> bool:
            if keep is None or keep(obj):
                part = self._pick(obj)
                if part is not None:
                    picked.append(part)
            return False

        listed = await self._inner.list(visit)
        return Listed(picked, listed.resource_version)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events unchanged."""
        async with aclosing(self._inner.watch(resource_version)) as events:
            async for event in events:
                yield event


def _never() -> bool:
    return False


def _raise(kinds: tuple[type[ApiError], ...], error: ApiError | None) -> None:
    """End a watch: NotFound means that the resource is gone or has another version."""
    if isinstance(error, kinds):
        raise error
