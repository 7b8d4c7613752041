"""Make a process a shard: check that it can work, take the Lease, work, and join again."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sharder.core.addresses import address_of
from sharder.core.errors import LeaseLost
from sharder.core.names import ObjectRef
from sharder.kube.client import SHARD_AGENT, connect
from sharder.metrics.shard import ShardMetrics
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.shard.cluster import Cluster
from sharder.shard.context import ShardContext
from sharder.shard.identity import Identity
from sharder.shard.lifecycle import Workload, lease_holder, serve_until_stopped
from sharder.shard.preparation import Preparation, alone_on
from sharder.shard.probes import Readiness, at_once, probes
from sharder.shard.resources import Handled, resources_of
from sharder.shard.rights import Right, needed_rights
from sharder.shard.ring_check import RingCheck
from sharder.shard.settings import Settings

_log = logging.getLogger(__name__)


@asynccontextmanager
async def connected(settings: Settings, metrics: ShardMetrics) -> AsyncGenerator[Cluster, None]:
    """Connect to the cluster of the settings, and count the requests."""
    client = await connect(settings.kubeconfig or None, agent=SHARD_AGENT)
    client.observe(metrics.requested)
    try:
        yield Cluster(client)
    finally:
        await client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The membership of this process in a ring, until `stop` is set."""

    identity: Identity
    settings: Settings
    handled: Handled
    rights: Sequence[Right] = ()
    """Rights that the shard needs beside those for its resources and its Lease."""
    stop: asyncio.Event
    rejoins: bool
    """Whether the shard can begin anew after it has given its Lease back, or lost it."""
    drain_on_stop: Callable[[], float]
    """Returns how many seconds an evacuation before the stop can take; 0 skips it."""
    until_alive: Callable[[], Awaitable[None]] = at_once
    one_shard: str = "add the reconcilers to one Shard"
    """How an author combines two shards of one process."""
    one_more: str = "add a reconciler"
    """How an author adds a resource to the shard."""
    metrics: ShardMetrics
    clock: Clock
    rng: Rng

    async def serve(
        self,
        connection: AbstractAsyncContextManager[Cluster],
        begin: Callable[[ShardContext, LeaseHolder, RingCheck], Workload],
    ) -> None:
        """Work until `stop` is set; `begin` returns new work for each time under the Lease.

        State from before the Lease was lost is outdated.

        Raises:
            LeaseLost: the Lease was lost, and no work runs any more.
            ConfigError: another shard of this process uses the Lease, there is no usable
                kubeconfig, or the process cannot listen on its address.
            NotFound: the API server does not serve one of the resources.
        """
        settings, readiness = self.settings, Readiness(self.clock)
        lease = ObjectRef(settings.namespace, settings.name)
        async with AsyncExitStack() as stack:
            stack.enter_context(alone_on(lease, settings.kubeconfig, remedy=self.one_shard))
            await stack.enter_async_context(
                probes(
                    address_of(settings.http_address),
                    not_ready=readiness.reason,
                    metrics=self.metrics,
                    until_alive=self.until_alive,
                )
            )
            cluster = await stack.enter_async_context(connection)
            await self._join(cluster, readiness, begin)

    async def _join(
        self,
        cluster: Cluster,
        readiness: Readiness,
        begin: Callable[[ShardContext, LeaseHolder, RingCheck], Workload],
    ) -> None:
        # The checks come before the Lease, so that a shard that cannot work gets no objects.
        preparation = Preparation(cluster, self.stop, clock=self.clock, rng=self.rng)
        resources, pause = resources_of(self.handled), self.settings.lease.retry_period
        found = await preparation.discover(resources, pause=pause)
        if found is None:
            return
        context = ShardContext(
            cluster=cluster,
            identity=self.identity,
            settings=self.settings,
            found=found,
            metrics=self.metrics,
            clock=self.clock,
            rng=self.rng,
        )
        holder = lease_holder(context)
        check = RingCheck(
            cluster, self.identity.ring, self.handled, clock=self.clock, remedy=self.one_more
        )
        rights = (*needed_rights(self.handled, context.lease), *self.rights)
        while await preparation.until_suitable(check, rights, holder.left_because):
            work = begin(context, holder, check)
            readiness.follow(holder, work.not_ready)
            if not await self._work(context, holder, work) or not self.rejoins:
                return

    async def _work(self, context: ShardContext, holder: LeaseHolder, work: Workload) -> bool:
        """Work under the Lease; return whether the shard is to join again."""
        try:
            why = await serve_until_stopped(
                context, holder, work, self.stop, drain_on_stop=self.drain_on_stop
            )
        except LeaseLost as error:
            if self.stop.is_set() or not (self.rejoins and self.settings.reacquire):
                raise
            ring, shard = self.identity.ring, self.identity.shard
            fields = {"ring": ring, "shard": shard, "error": str(error)}
            _log.warning("rejoining ring %s: %s", ring, error, extra=fields)
            return True
        return bool(why)
