"""The ports in memory."""

from collections.abc import Callable
from datetime import datetime

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing, unreadable_ring
from sharder.core.errors import NotFound
from sharder.core.names import (
    GroupResource,
)
from sharder.kube.typed_stores import LEASES, RINGS
from tests.support.fake_store import FakeStore
from tests.support.rules import Rules, Tree
from tests.support.store_state import Versions

WEBHOOKS = Resource(
    id=GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    version="v1",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
)


class FakeRings(FakeStore[ControllerRing]):
    """ControllerRings; some cannot be read, and views of them refuse those."""

    def __init__(self) -> None:
        super().__init__(ControllerRing, RINGS)

    @override
    def _decode(self, tree: Tree) -> ControllerRing:
        try:
            return super()._decode(tree)
        except msgspec.ValidationError as error:
            return unreadable_ring(msgspec.convert(tree, PartialObject), str(error))


class FakeObjects:
    """Resources that a test has added; one counter of versions for all."""

    def __init__(self, *resources: Resource) -> None:
        versions = Versions()
        self.stores = {
            resource.id: FakeStore(PartialObject, resource, versions=versions)
            for resource in resources
        }
        self._resources = {resource.id: resource for resource in resources}
        self.clock: Callable[[], datetime | None] = lambda: parse_time(Rules().now())
        """That of the API server."""

    def server_time(self) -> datetime | None:
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
    return FakeRings()
