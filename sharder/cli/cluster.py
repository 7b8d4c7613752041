"""The cluster that a command reads and writes, for as long as the command runs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.names import RING_LABEL
from sharder.core.plan.observe import DatedObject
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import NAMESPACES, leases, rings
from sharder.ports import Objects, Store
from sharder.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The collections of a cluster, and what a command needs beside them."""

    rings: Store[ControllerRing]
    """Including those that cannot be decoded."""
    leases: Store[Lease]
    namespaces: Store[PartialObject]
    objects: Objects
    dated: Callable[[Resource], Store[DatedObject]]
    """The objects of a resource, with the writes of each client."""
    now: datetime
    """The time for which the state of Leases is determined."""
    clock: Clock

    @classmethod
    def of(cls, client: Client) -> "Cluster":
        """Return what commands use of a cluster."""
        clock, objects = SystemClock(), KubeObjects(client)
        return cls(
            rings=rings(client),
            leases=leases(client, labels=RING_LABEL),
            namespaces=objects.of(NAMESPACES),
            objects=objects,
            dated=partial(KubeStore, client, DatedObject, metadata_only=True),
            now=clock.now(),
            clock=clock,
        )
