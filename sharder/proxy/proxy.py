"""The proxy of one controller: it serves the controller, and is a shard of the ring for it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sharder.core.errors import ApiError, LeaseLost, Unavailable
from sharder.core.names import RingName, ShardName
from sharder.kube.passage import Passage
from sharder.metrics.shard import process_metrics
from sharder.proxy.server import ProxyServer
from sharder.proxy.view import Options, View
from sharder.proxy.work import Followers, Work
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import Once
from sharder.runtime.task_pool import race
from sharder.shard.cluster import Cluster
from sharder.shard.context import ShardContext
from sharder.shard.identity import Handled, Identity, handled_of
from sharder.shard.process import discover, serve
from sharder.shard.rights import rights_behind_proxy
from sharder.shard.settings import Settings

_POLL_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 2.0
_RING_SECONDS: Final = 10.0
"""Between two looks at the ring while the controller does not watch its resources."""

_log = logging.getLogger(__name__)

Listen: TypeAlias = Callable[[ProxyServer], AbstractAsyncContextManager[None]]
"""Lets the controller in while its block lasts."""


@dataclass(slots=True)
class Proxy:
    """One proxy, for one controller and one ring."""

    ring: RingName
    settings: Settings
    options: Options
    clock: Clock
    rng: Rng
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.settings.check(self.ring)

    def stop(self) -> None:
        """Request a clean stop."""
        self._stop.set()

    async def serve_on(self, cluster: Cluster, passage: Passage, listen: Listen) -> None:
        """Serve the controller until `stop` is called.

        Raises:
            LeaseLost: a resource is served in another version, so the process must start again.
        """
        while (handled := await self._handled(cluster)) is not None:
            context = ShardContext(
                cluster=cluster,
                identity=Identity(ring=self.ring, shard=ShardName(self.settings.name)),
                settings=self.settings,
                handled=handled,
                stop=self._stop,
                metrics=process_metrics(),
                clock=self.clock,
                rng=self.rng,
            )
            if await discover(context):
                await self._serve(context, passage, listen)

    async def _handled(self, cluster: Cluster) -> Handled | None:
        """Return the resources of the ring, as soon as the API server answers; None at the end."""
        while not self._stop.is_set():
            try:
                return handled_of(await cluster.ring(self.ring))
            except Unavailable as error:
                _log.warning("cannot read the ring: %s", error)
                await self.clock.wait(self._stop, _RETRY_SECONDS)
        return None

    async def _serve(self, context: ShardContext, passage: Passage, listen: Listen) -> None:
        view = View(context, self.options)
        followers = Followers(context, view)
        async with listen(ProxyServer(passage, view)):
            health = [] if view.health is None else [view.health.run()]
            await race(self._be_shards(context, view, followers), followers.run(), *health)

    async def _be_shards(self, context: ShardContext, view: View, followers: Followers) -> None:
        """Be a shard while the controller works, until the ring changes while it does not."""
        while not self._stop.is_set():
            changes = self._until_changed(context)
            await race(self._until_working(view, context.handled), changes, self._stop.wait())
            if view.absence(0):
                return
            if not self._stop.is_set():  # in a task: a lost Lease must not hide a cancellation
                await race(_be_shard(context, view, followers))

    async def _until_working(self, view: View, handled: Handled) -> None:
        """Wait for the controller: only then this shard can work on objects."""
        said = Once[RingName]()
        while reason := view.absence(0):
            if said.is_new(self.ring, reason):
                _log.info("this is no shard yet: %s", reason)
            await self.clock.sleep(_POLL_SECONDS)
        _log.info("the controller watches %s", ", ".join(map(str, handled)))

    async def _until_changed(self, context: ShardContext) -> None:
        """Wait until the ring has other resources: the controller might never watch ours."""
        while True:
            await self.clock.sleep(_RING_SECONDS)
            with suppress(ApiError):
                if handled_of(await context.cluster.ring(self.ring)) != context.handled:
                    return


async def _be_shard(context: ShardContext, view: View, followers: Followers) -> None:
    rights = rights_behind_proxy(context.handled, context.lease)
    try:
        await serve(context, rights, lambda holder: Work(context, view, followers, holder))
    except LeaseLost as error:
        _log.warning("%s", error)
