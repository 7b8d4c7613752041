"""The ports in memory."""

from datetime import datetime

from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource
from sharder.kube.typed_stores import LEASES
from tests.support.fake_store import FakeStore, State, at_noon, server_of


class FakeObjects:
    """Resources that a test has added, on one API server."""

    def __init__(self, *resources: Resource) -> None:
        server = server_of(resources)
        self.stores = {
            each.id: FakeStore(PartialObject, each, state=State(server, each))
            for each in resources
        }
        self._resources = {resource.id: resource for resource in resources}

    def server_time(self) -> datetime:
        return at_noon()

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
