"""The ports in memory."""

from collections.abc import Callable
from datetime import datetime

from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing, unreadable_ring
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource
from sharder.kube.typed_stores import LEASES, MUTATING, RINGS
from tests.support.fake_store import FakeStore, State, at_noon, server_of

WEBHOOKS = MUTATING


class FakeObjects:
    """Resources that a test has added, on one API server."""

    def __init__(self, *resources: Resource) -> None:
        self.clock: Callable[[], datetime] = at_noon
        """That of the API server."""
        server = server_of(resources, self.server_time)
        self.stores = {
            each.id: FakeStore(PartialObject, each, state=State(server, each))
            for each in resources
        }
        self._resources = {resource.id: resource for resource in resources}

    def server_time(self) -> datetime:
        return self.clock()

    async def find(self, resource: GroupResource) -> Resource:
        try:
            return self._resources[resource]
        except KeyError:
            raise NotFound(f"the API server does not serve {resource}") from None

    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> FakeStore[PartialObject]:
        return self.stores[resource.id].selecting(labels, namespace=namespace, fields=fields)


def fake_leases() -> FakeStore[Lease]:
    return FakeStore(Lease, LEASES)


def fake_rings() -> FakeStore[ControllerRing]:
    return FakeStore(ControllerRing, RINGS, unreadable=unreadable_ring)
