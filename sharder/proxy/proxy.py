"""The proxy of one controller: it serves the controller, and is a shard of the ring for it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, TypeAlias

from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, LeaseLost, Unavailable
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.kube.passage import Passage
from sharder.metrics.shard import process_metrics
from sharder.proxy.server import ProxyServer
from sharder.proxy.view import Options, View
from sharder.proxy.work import Followers, Work
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import race, task_group
from sharder.shard.cluster import Cluster
from sharder.shard.context import ShardContext
from sharder.shard.identity import Handled, Identity, handled_of, resources_of
from sharder.shard.process import ShardProcess
from sharder.shard.rights import rights_behind_proxy
from sharder.shard.settings import Settings

_POLL_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 2.0
_RING_SECONDS: Final = 10.0
"""Between two looks at the ring while the controller does not watch its resources."""

_log = logging.getLogger(__name__)

Listen: TypeAlias = Callable[[ProxyServer], AbstractAsyncContextManager[None]]
"""Lets the controller in while its block lasts."""

Found: TypeAlias = dict[GroupResource, Resource]
"""The resources of a ring, as they are served."""


class Proxy:
    """One proxy, for one controller and one ring."""

    def __init__(
        self,
        ring: RingName,
        settings: Settings,
        *,
        options: Options,
        clock: Clock,
        rng: Rng,
    ) -> None:
        settings.check(ring)
        self._ring = ring
        self._settings = settings
        self._options = options
        self._clock, self._rng = clock, rng
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Request a clean stop."""
        self._stop.set()

    async def serve_on(self, cluster: Cluster, passage: Passage, listen: Listen) -> None:
        """Serve the controller until `stop` is called.

        Raises:
            LeaseLost: a resource is served in another version, so the process must start again.
        """
        while (found := await self._found(cluster)) is not None:
            await self._serve(cluster, passage, listen, *found)

    async def _found(self, cluster: Cluster) -> tuple[Handled, Found] | None:
        """Return the resources of the ring, as soon as the API server answers; None at the end."""
        while not self._stop.is_set():
            try:
                handled = handled_of(await cluster.ring(self._ring))
                return handled, {each: await cluster.find(each) for each in resources_of(handled)}
            except Unavailable as error:
                _log.warning("cannot read the ring and its resources: %s", error)
                await self._clock.wait(self._stop, _RETRY_SECONDS)
        return None

    async def _serve(
        self, cluster: Cluster, passage: Passage, listen: Listen, handled: Handled, found: Found
    ) -> None:
        context = ShardContext(
            cluster=cluster,
            identity=Identity(ring=self._ring, shard=ShardName(self._settings.name)),
            settings=self._settings,
            found=found,
            metrics=process_metrics(),
            clock=self._clock,
            rng=self._rng,
        )
        view = View(context, handled, self._options)
        followers = Followers(context, view, list(handled))
        async with task_group() as group, listen(ProxyServer(passage, view)):
            beside = [group.create_task(followers.run(), name="follow")]
            if view.health is not None:
                beside.append(group.create_task(view.health.run(), name="health"))
            while not self._stop.is_set():
                changes = self._until_changed(cluster, handled)
                await race(self._until_working(view, handled), changes, self._stop.wait())
                if view.absence(0):
                    break
                if not self._stop.is_set():  # in a task: a lost Lease must not hide a cancellation
                    await race(self._be_shard(context, handled, view, followers))
            for task in beside:
                task.cancel()

    async def _until_working(self, view: View, handled: Handled) -> None:
        """Wait for the controller: only then this shard can work on objects."""
        while view.absence(0):
            await self._clock.sleep(_POLL_SECONDS)
        _log.info("the controller watches %s", ", ".join(map(str, handled)))

    async def _until_changed(self, cluster: Cluster, handled: Handled) -> None:
        """Wait until the ring has other resources: the controller might never watch ours."""
        while True:
            await self._clock.sleep(_RING_SECONDS)
            with suppress(ApiError):
                if handled_of(await cluster.ring(self._ring)) != handled:
                    return

    async def _be_shard(
        self, context: ShardContext, handled: Handled, view: View, followers: Followers
    ) -> None:
        process = ShardProcess(
            context=context, handled=handled, needed=rights_behind_proxy, stop=self._stop
        )
        try:
            await process.serve(lambda holder: Work(context, view, followers, holder))
        except LeaseLost as error:
            _log.warning("%s", error)
