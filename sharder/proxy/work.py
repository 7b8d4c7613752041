"""The work of a proxied shard while it holds its Lease: follow its objects, and release them."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from typing_extensions import override

from sharder.core.api.meta import ObjectMeta
from sharder.core.errors import ApiError, Conflict, NotFound
from sharder.core.names import WATCHES_ANNOTATION, GroupResource
from sharder.ports import Changed, Event, Listed, Removed
from sharder.proxy.here import Here, Main
from sharder.proxy.view import View
from sharder.runtime.error_log import Once
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.task_pool import race
from sharder.shard.context import DRAIN_BACKOFF, ShardContext
from sharder.shard.lifecycle import Workload
from sharder.shard.objects import OwnObject, bare
from sharder.shard.watched import Watched

_POLL_SECONDS: Final = 0.1
"""Between two looks for what is listed, and for objects that can be released."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Followers:
    """Our own watches of the main objects, which run as long as the proxy."""

    context: ShardContext
    view: View
    watched: list[Watched[OwnObject]] = field(init=False)
    """The watches."""
    _anew: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        context, identity = self.context, self.context.identity
        decode = partial(bare, labels=(identity.owner_label, identity.drain_label))
        self.watched = []
        for found in map(context.found.__getitem__, context.handled):
            objects = context.cluster.objects(found, identity.selector, decode=decode)
            self.watched.append(Watched(objects, found, context))

    async def list_anew(self) -> None:
        """List all objects now, which our watches may not have shown yet, and go on from there."""
        self._begin()
        self._anew.set()
        while not all(each.has_listed for each in self.watched):
            await self.context.clock.sleep(_POLL_SECONDS)

    async def run(self) -> None:
        """Follow the objects of all main resources until cancelled.

        Raises:
            LeaseLost: a resource is served in another version, so the process must start again.
        """
        while True:
            self._anew.clear()
            await race(*map(self._follow, self.watched), self._anew.wait())

    async def _follow(self, watched: Watched[OwnObject]) -> None:
        async with aclosing(watched.follow("watch own objects")) as events:
            async for event in events:
                _record(self.view.here, watched.resource.id, event)
                del event  # the next one can be days away, and a list is large


def _record(here: Here, resource: GroupResource, event: Event[OwnObject]) -> None:
    match event:
        case Listed(items, version):
            here.listed(resource, [obj.metadata for obj in items], version)
        case Changed(obj):
            here.changed(resource, obj.metadata)
        case Removed(obj):
            here.removed(resource, obj.metadata)


@dataclass(slots=True)
class Work(Workload):
    """What this shard does under its Lease; a controller that hangs or has gone is a problem."""

    context: ShardContext
    view: View
    followers: Followers
    holder: LeaseHolder
    _failures: Once[str] = field(default_factory=Once)

    @property
    @override
    def objects(self) -> int:
        return len(self.view.here)

    @property
    @override
    def watched(self) -> Iterable[Watched[OwnObject]]:
        return self.followers.watched

    @override
    def problem(self, seconds: float) -> str:
        return Workload.problem(self, seconds) or self.view.absence(seconds)

    @override
    async def run(self, stop: asyncio.Event) -> None:
        """Release objects that drain, until `stop` is set; then end the controller's view.

        From then on nothing passes, and the call returns when all writes that had passed have
        ended, which is before the Lease ends.
        """
        try:
            await race(self._work(), stop.wait())
        finally:
            self.view.close()
            while self.view.here.in_flight():
                await self.context.clock.sleep(_POLL_SECONDS)

    async def _work(self) -> None:
        """Let the controller write, once we know what was taken before we had the Lease."""
        await self.followers.list_anew()
        self.view.open(self.holder.left)
        while True:
            await self.context.clock.sleep(_POLL_SECONDS)
            if outside := sorted(map(str, self.view.outside)):
                self.holder.note(WATCHES_ANNOTATION, ",".join(outside))
            for main in self.view.here.to_release():
                await self._release_one(main)

    async def _release_one(self, main: Main) -> None:
        """Acknowledge a drain; after a conflict our watch shows the object again."""
        context, (namespace, name) = self.context, main.ref
        main.tries += 1
        main.next_try = context.clock.monotonic() + DRAIN_BACKOFF.delay(main.tries, context.rng)
        meta = ObjectMeta(name=name, namespace=namespace, resource_version=main.version)
        try:
            is_restored = await context.acknowledge(context.found[main.resource], meta)
            problem = "a webhook restored both labels" if is_restored else ""
        except (Conflict, NotFound):
            return
        except ApiError as error:
            problem = str(error)
        if not problem:
            self._failures.forget(main.uid)
            _log.info("released %s %s", main.resource, main.ref)
        elif self._failures.is_new(main.uid, problem):
            _log.warning("cannot release %s %s: %s", main.resource, main.ref, problem)
