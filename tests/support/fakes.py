"""The ports in memory."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing, unreadable_ring
from sharder.core.errors import ApiError, NotFound
from sharder.core.fence.probe import NoFence, Proof
from sharder.core.names import (
    GroupResource,
    ObjectRef,
    RingName,
    ShardName,
)
from sharder.core.status.stats import StatsOf
from sharder.core.status.transitions import Transition
from sharder.kube.typed_stores import LEASES, RINGS
from sharder.ports import Backlog
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


class FakeWebhookConfigurations:
    """Configurations, and in `bodies` what was applied by name."""

    def __init__(self) -> None:
        self.bodies: dict[str, Json] = {}
        self.store = FakeStore(PartialObject, WEBHOOKS)
        self.applies = 0

    async def apply(self, body: Json) -> PartialObject:
        self.applies += 1
        ref = msgspec.convert(body, PartialObject).metadata.ref
        applied = await self.store.apply(ref, body)
        self.bodies[ref.name] = body
        return applied

    async def get(self, ref: ObjectRef) -> PartialObject:
        return await self.store.get(ref)

    def stream(self, labels: str = "") -> AsyncIterator[PartialObject]:
        return self.store.stream(labels)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        await self.store.delete(ref, uid=uid, resource_version=resource_version)
        del self.bodies[ref.name]


class FakeFences:
    """What a dry run shows, the same for every ring, and for which rings it was tried."""

    def __init__(self) -> None:
        self.proof: Proof | ApiError = NoFence()
        self.tried: list[RingName] = []

    async def prove(self, ring: RingName) -> Proof:
        self.tried.append(ring)
        if isinstance(self.proof, ApiError):
            raise self.proof
        return self.proof


class FakeRecorder:
    """Keeps what was recorded as (object, reason, message)."""

    def __init__(self) -> None:
        self.warnings: list[tuple[ObjectRef, str, str]] = []
        self.events: list[tuple[ObjectRef, str, str]] = []
        """What happened, each time."""

    async def warn(self, about: PartialObject, reason: str, message: str) -> None:
        self.warnings.append((about.metadata.ref, reason, message))

    async def record(
        self, about: PartialObject, reason: str, message: str, *, warning: bool
    ) -> None:
        self.events.append((about.metadata.ref, reason, message))


class FakeJournal:
    """Keeps the moves as (ring, source, target), and what happened."""

    def __init__(self) -> None:
        self.moves: list[tuple[RingName, ShardName | None, ShardName]] = []
        self.transitions: list[tuple[RingName, Transition]] = []
        self.counts: StatsOf | None = None
        self.backlogs: dict[tuple[RingName, GroupResource], tuple[Backlog, Backlog]] = {}

    def leads(self, counts: StatsOf | None) -> None:
        self.counts = counts

    def happened(self, ring: RingName, transition: Transition) -> None:
        self.transitions.append((ring, transition))

    def moved(self, ring: RingName, source: ShardName | None, target: ShardName) -> None:
        self.moves.append((ring, source, target))

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Backlog, draining: Backlog
    ) -> None:
        self.backlogs[ring, resource] = unassigned, draining

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        self.backlogs.pop((ring, resource), None)


def fake_leases() -> FakeStore[Lease]:
    return FakeStore(Lease, LEASES)


def fake_rings() -> FakeStore[ControllerRing]:
    return FakeRings()
