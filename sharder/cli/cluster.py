"""The cluster that a command reads and writes, for as long as the command runs."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from sharder.cli.progress import Progress
from sharder.core.api.cluster import Secret
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.api.since import DatedObject
from sharder.core.names import RING_LABEL
from sharder.kube.client import Client, connect
from sharder.kube.discovery import Served, served
from sharder.kube.objects import KubeObjects, dated_objects
from sharder.kube.typed_stores import (
    MUTATING,
    all_rings,
    leases,
    namespaces,
    secrets,
)
from sharder.ports import Objects, Readable, Store, WebhookConfigurations
from sharder.runtime.clock import Clock, SystemClock

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The collections of a cluster, and what a command needs beside them."""

    rings: Store[ControllerRing]
    """Including those that cannot be decoded."""
    leases: Store[Lease]
    namespaces: Readable[PartialObject]
    secrets: Store[Secret]
    configurations: WebhookConfigurations
    objects: Objects
    dated: Callable[[Resource, str], Readable[DatedObject]]
    """Objects of a resource by label selector, with the writes of each client."""
    served: Callable[[], Awaitable[Served]]
    """Returns the resources that can be listed and patched."""
    now: datetime
    """The time for which the state of Leases is determined."""
    clock: Clock
    shown: Progress
    """Progress and warnings, on stderr."""


def read(kubeconfig: str | None, context: str | None, ask: Callable[[Cluster], Awaitable[T]]) -> T:
    """Call `ask` with the cluster, and return its result.

    Raises:
        ConfigError: there is no usable kubeconfig.
    """
    clock = SystemClock()

    async def work(client: Client) -> T:
        cluster = Cluster(
            rings=all_rings(client),
            leases=leases(client, labels=RING_LABEL),
            namespaces=namespaces(client),
            secrets=secrets(client, namespace=""),
            configurations=KubeObjects(client).of(MUTATING),
            objects=KubeObjects(client),
            dated=partial(dated_objects, client),
            served=partial(served, client),
            now=clock.now(),
            clock=clock,
            shown=Progress(sys.stderr),
        )
        try:
            return await ask(cluster)
        finally:
            cluster.shown.erase()

    return run(kubeconfig, context, work)


def run(kubeconfig: str | None, context: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Connect, await the work, disconnect, and return the result of the work; errors as `read`."""

    async def connected() -> T:
        client = await connect(kubeconfig, context)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(connected())
