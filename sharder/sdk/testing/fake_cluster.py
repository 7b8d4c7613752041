"""A cluster in memory: the objects of the API server, and the writes of other clients."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, overload

import msgspec
from typing_extensions import override

from sharder.core.api.cluster import Right
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError, NotFound, Unavailable
from sharder.core.names import GroupResource, ObjectRef, RingName, parse_resource
from sharder.kube.store import Scope
from sharder.kube.typed_stores import LEASES, NAMESPACES
from sharder.sdk.testing.api_server import ApiServer
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.sdk.testing.memory_client import Collection, Faults, MemoryClient
from sharder.sdk.testing.requests import Call, Client, Place, Refused, place_of
from sharder.sdk.testing.resources import BUILT_IN
from sharder.sdk.testing.storage import Storage
from sharder.shard.cluster import Cluster
from sharder.shard.objects import Document, OwnMeta, OwnObject, decode

_SHARD: Final = Client(username="shard")
"""The user of all shards; a test acts as another one."""

T = TypeVar("T")


class _ShardClient(MemoryClient):
    """The client of all shards, whose requests can fail."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, _SHARD)
        self.faults = defaultdict[GroupResource, Faults](Faults)
        self.requests = list[str]()
        self.is_away = False

    @override
    def before(self, call: Call) -> None:
        place = self._place(call)
        if place is None:
            return
        resource = GroupResource(place.group, place.resource)
        if failing := self.faults[resource].failing:
            raise failing.popleft()
        is_whole = not call.metadata_only and resource != LEASES.id
        if call.method == "GET" and place.name and is_whole:
            self.requests.append(f"get {place.name}")

    @override
    def after(self, call: Call) -> None:
        place = self._place(call)
        if place is None or call.method == "GET":
            return
        if losing := self.faults[GroupResource(place.group, place.resource)].losing:
            raise losing.popleft()

    def _place(self, call: Call) -> Place | None:
        """Return what a request is about, None for discovery."""
        if self.is_away:
            raise Unavailable("the API server does not answer")
        try:
            return place_of(call.path)
        except Refused:
            return None


class FakeCluster(Cluster):
    """A cluster with the usual resources of Kubernetes, and others that a test adds.

    The cluster follows the rules of the API server, without controllers and webhooks.

    `create`, `patch` and `delete` act like another client, and return when the shards have nothing
    left to do.  Objects are named `namespace/name`; the namespace defaults to `default`.
    """

    def __init__(self, *resources: Resource) -> None:
        """Start empty; `resources` are custom resources, made by `custom`."""
        self.clock = FakeClock()
        self.rings: dict[RingName, ControllerRing] = {}
        """The rings that the shards can read."""
        self.denied: set[Right] = set()
        """The rights that shards lack; an open watch goes on until its store hangs up."""
        self._resources = {
            each.id: each for each in (LEASES, NAMESPACES, *BUILT_IN.values(), *resources)
        }
        self.server = ApiServer(Storage(), self._resources.values(), now=self.clock.now)
        self.server.allows = self._allows
        self._shards = _ShardClient(self.server)
        self.requests: list[str] = self._shards.requests
        """Reads of whole objects from the API server, not from a cache, such as `get demo`."""
        super().__init__(self._shards)
        self.lease_store = self._store(LEASES, Lease)
        """The Leases of all shards."""

    @override
    async def ring(self, name: RingName) -> ControllerRing:
        """Return the ring; `NotFound` if there is none."""
        try:
            return self.rings[name]
        except KeyError:
            raise NotFound(f"there is no ControllerRing {name}") from None

    @override
    async def may(self, right: Right) -> bool:
        """Return whether shards have the right."""
        return right not in self.denied

    def store(self, resource: str) -> Collection[Document]:
        """Return the objects of a resource, such as `secrets` or `deployments.apps`.

        `store.fail(error)` fails the next request of the shards, `store.lose(error)` loses the
        answer of a write, and `store.hang_up()` ends all watches.
        """
        return self._store(self._named(resource), dict)

    async def create(self, body: Mapping[str, object]) -> Document:
        """Create the object, and return the stored object."""
        tree = _copied(body)
        partial = msgspec.convert(tree, PartialObject)
        resource = self._of_kind(partial)
        namespace = (partial.metadata.namespace or "default") if resource.namespaced else ""
        created = await self._store(resource, dict).create(namespace, tree)
        await self.advance(0)
        return created

    @overload
    async def get(self, resource: str, name: str) -> Document: ...

    @overload
    async def get(self, resource: str, name: str, shape: type[T]) -> T: ...

    async def get(self, resource: str, name: str, shape: type[T] | None = None) -> T | Document:
        """Return the object, decoded as by `Request.get`; `NotFound` if there is none."""
        resource_of, ref = self._named(resource), self.ref(resource, name)
        if shape is None:
            return await self._store(resource_of, dict).get(ref)
        return decode(await self._store(resource_of, msgspec.Raw).get(ref), shape)

    async def metadata(self, resource: str, name: str) -> OwnMeta:
        """Return the object's metadata, as `Request.metadata` does; `NotFound` if it is gone."""
        return (await self.get(resource, name, OwnObject)).metadata

    async def list(self, resource: str, labels: str = "") -> Sequence[Document]:
        """Return the objects that match the label selector, sorted by namespace and name."""
        of = self._named(resource)
        listed = await self._store(of, dict, labels).list()
        return [{"apiVersion": of.api_version, "kind": of.kind, **each} for each in listed.items]

    async def patch(self, resource: str, name: str, body: Mapping[str, object]) -> Document:
        """Merge `body` into the object, and return it."""
        patched = await self.store(resource).patch(self.ref(resource, name), _copied(body))
        await self.advance(0)
        return patched

    async def patch_status(self, resource: str, name: str, body: Mapping[str, object]) -> Document:
        """Merge `body`, which is `{"status": {…}}`, into the status; return the object."""
        statuses, ref = self.store(resource).status(), self.ref(resource, name)
        patched = await statuses.patch(ref, _copied(body))
        await self.advance(0)
        return patched

    async def delete(self, resource: str, name: str) -> None:
        """Delete the object; if it has finalizers, it stays until they are removed."""
        store, meta = self.store(resource), await self.metadata(resource, name)
        await store.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)
        await self.advance(0)

    def disconnect(self) -> None:
        """Fail the requests of all clients until `connect`; open watches show nothing."""
        self._shards.is_away = True

    async def connect(self) -> None:
        """Answer requests again."""
        self._shards.is_away = False
        await self.advance(0)

    async def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`, and let the shards work meanwhile.

        Raises:
            AssertionError: the shards are never done.
        """
        await self.clock.advance(seconds)

    def ref(self, resource: str, name: str) -> ObjectRef:
        """Parse `namespace/name`; the namespace defaults to `default`, if the resource has any."""
        namespace, slash, bare = name.rpartition("/")
        if not self._named(resource).namespaced:
            return ObjectRef("", name)
        return ObjectRef(namespace if slash else "default", bare)

    def _named(self, resource: str) -> Resource:
        try:
            return self._resources[parse_resource(resource)]
        except KeyError:
            raise ConfigError(
                f"this cluster does not serve {resource}: make it with "
                f'FakeCluster(custom("{resource}", kind=…))'
            ) from None

    def _of_kind(self, partial: PartialObject) -> Resource:
        for each in self._resources.values():
            if (each.id.group, each.kind) == (partial.group, partial.kind):
                return each
        raise ConfigError(
            f"this cluster does not serve {partial.kind!r} of group {partial.group!r}"
        )

    def _store(self, resource: Resource, of: type[T], labels: str = "") -> Collection[T]:
        client, faults = MemoryClient(self.server, Client()), self._shards.faults[resource.id]
        return Collection(client, of, resource, Scope(labels=labels), faults)

    def _allows(self, client: Client, verb: str, resource: GroupResource, _: str) -> bool:
        return client is not _SHARD or Right(verb=verb, resource=resource) not in self.denied


def _copied(body: Mapping[str, object]) -> dict[str, Json]:
    """Return a deep copy of the body."""
    copy: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(body))
    return copy
