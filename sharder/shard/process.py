"""Make a process a shard: check that it can work, take the Lease, and work.

A process holds its Lease once: what ends its work ends the process, and Kubernetes restarts it.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from sharder.core.api.cluster import Right
from sharder.core.errors import ApiError, ConfigError, Forbidden, Unavailable
from sharder.core.names import ObjectRef
from sharder.core.texts import address_of
from sharder.kube.client import SHARD_AGENT, connect
from sharder.metrics.collectors import Metrics
from sharder.runtime.backoff import Backoff
from sharder.runtime.error_log import ErrorLog
from sharder.runtime.lease_holder import LeaseHolder
from sharder.shard.cluster import Cluster
from sharder.shard.context import ShardContext
from sharder.shard.identity import resources_of
from sharder.shard.lifecycle import Life, Workload, lease_holder
from sharder.shard.probes import probes
from sharder.shard.rights import advice
from sharder.shard.ring_check import RingCheck
from sharder.shard.settings import Settings

BACKOFF: Final = Backoff(base=2.0, cap=30.0)
"""Seconds between two checks while a problem keeps the shard from working."""

_LEASES_IN_USE: Final = set[tuple[str, ObjectRef]]()
"""Kubeconfig and Lease of each shard that this process serves."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def alone_on(lease: ObjectRef, kubeconfig: str) -> AsyncGenerator[None, None]:
    """Reject a second shard of this process on the same Lease: it would wait forever."""
    key = (kubeconfig, lease)
    if key in _LEASES_IN_USE:
        raise ConfigError(
            f"another shard of this process uses Lease {lease}: handle all resources in one "
            "shard, or give each shard a name of its own"
        )
    _LEASES_IN_USE.add(key)
    try:
        yield
    finally:
        _LEASES_IN_USE.discard(key)


@asynccontextmanager
async def connected(settings: Settings, metrics: Metrics) -> AsyncGenerator[Cluster, None]:
    """Connect to the cluster of the settings, and count the requests."""
    client = await connect(settings.kubeconfig or None, agent=SHARD_AGENT)
    client.on_answer = metrics.counts["rest_client_requests_total"].add
    try:
        yield Cluster(client)
    finally:
        await client.close()


async def serve(
    context: ShardContext, rights: Sequence[Right], begin: Callable[[LeaseHolder], Workload]
) -> None:
    """Do the work that `begin` returns, until a shard that has the rights is to stop.

    Raises:
        LeaseLost: the Lease was lost or given back, and no work runs any more.
        ConfigError: another shard of this process uses the Lease, or the process cannot listen
            on its address.
        NotFound: the API server does not serve one of the resources.
    """
    holder, address = lease_holder(context), address_of(context.settings.http_address)
    work: Workload | None = None

    def not_ready() -> str:
        if work is None:
            return "resources and rights are not checked yet"
        if not holder.valid():
            return f"the Lease is not held{holder.reported and f': {holder.reported}'}"
        return work.not_ready(context.settings.lease.lease_duration)

    async with (
        alone_on(context.lease, context.settings.kubeconfig),
        probes(address, not_ready=not_ready, metrics=context.metrics),
    ):
        # The checks come before the Lease, so that a shard that cannot work gets no objects.
        if await discover(context) and await _until_suitable(context, rights, holder):
            work = begin(holder)
            await Life(context, holder, work).live()


async def discover(context: ShardContext) -> bool:
    """Look up the resources as they are served; return False if the shard is to stop first.

    While the API server is unavailable, this is tried again, as the shard does with its Lease.
    If the process ended instead, Kubernetes would back off, and the shard might return only
    after its Lease was taken over.
    """
    errors = ErrorLog("discover resources")
    while not context.stop.is_set():
        try:
            for each in resources_of(context.handled):
                context.found[each] = await context.cluster.find(each)
        except Unavailable as error:
            errors.failed(error)
            await context.clock.wait(context.stop, context.settings.lease.retry_period)
        else:
            errors.over()
            return True
    return False


async def _until_suitable(
    context: ShardContext, rights: Sequence[Right], holder: LeaseHolder
) -> bool:
    """Wait until the shard handles all main resources of its ring, and has all its rights.

    If the API server does not answer a check, the shard continues with a warning.  Returns
    False if it is to stop first.
    """
    check, errors, failures = RingCheck(context), ErrorLog("start work"), 0
    while not context.stop.is_set():
        problem = await check.problem() or await missing(rights, context.cluster)
        if not problem:
            errors.over()
            return True
        errors.failed(Forbidden(problem))
        failures += 1
        await holder.left_because()  # keeps a Lease that says why this shard cannot work
        await context.clock.wait(context.stop, BACKOFF.delay(failures, context.rng))
    return False


async def missing(rights: Sequence[Right], cluster: Cluster) -> str:
    """Return a message with the rules to add, empty if no right is missing or known to be."""
    try:
        lacking = [right for right in rights if not await cluster.may(right)]
    except ApiError as error:
        _log.warning("rights not checked: %s", error, extra={"error": str(error)})
        return ""
    return advice(lacking) if lacking else ""
