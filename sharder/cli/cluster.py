"""The cluster that a command reads and writes, for as long as the command runs."""

from sharder.core.api.meta import Resource
from sharder.core.names import RING_LABEL
from sharder.core.plan.observe import DatedObject
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import NAMESPACES, leases, rings
from sharder.runtime.clock import Clock


class Cluster:
    """The collections of a cluster, and what a command needs beside them."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.now = clock.now()
        """The time for which the state of Leases is determined."""
        self.objects = KubeObjects(client)
        self.rings = rings(client)
        """Including those that cannot be decoded."""
        self.leases = leases(client, labels=RING_LABEL)
        self.namespaces = self.objects.of(NAMESPACES)

    def dated(self, resource: Resource) -> KubeStore[DatedObject]:
        """Return the objects of a resource, with the writes of each client."""
        return KubeStore(self.client, DatedObject, resource, metadata_only=True)
