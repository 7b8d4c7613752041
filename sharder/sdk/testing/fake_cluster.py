"""A cluster in memory: the objects of the API server, and the writes of other clients."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar, overload

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError, Forbidden, NotFound, Unavailable
from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.kube.typed_stores import LEASES
from sharder.runtime.clock import Clock
from sharder.sdk.observability.exposition import NoShardMetrics
from sharder.sdk.reads.collection import OwnObjects, parse_resource
from sharder.sdk.reads.objects import Document, OwnMeta, OwnObject, decode
from sharder.sdk.startup.permissions import Right
from sharder.sdk.testing.documents import FakeDocuments, ServedView, WholeStore
from sharder.sdk.testing.fake_clock import FakeClock, StillBusy
from sharder.sdk.testing.fake_store import FakeStore
from sharder.sdk.testing.resources import BUILT_IN
from sharder.sdk.testing.rules import Rules, Tree, as_tree, meta_of, owner_uids, rules_of
from sharder.sdk.testing.store_state import Versions

T = TypeVar("T")


class ReconcileCounts(NoShardMetrics):
    """The reconciles of each object at the present time: a count ends when the time moves."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._time = clock.monotonic()
        self._counts = Counter[ObjectRef]()

    @override
    def began(self, resource: GroupResource, ref: ObjectRef) -> None:
        """Count a reconcile."""
        if self._time != self._clock.monotonic():
            self._time = self._clock.monotonic()
            self._counts.clear()
        self._counts[ref] += 1

    def most(self) -> tuple[ObjectRef, int] | None:
        """Return the object with the most reconciles, and their number; None without any."""
        return max(self._counts.items(), key=lambda item: item[1], default=None)


class FakeCluster:
    """A cluster that serves the usual resources of Kubernetes, and others that a test adds.

    The cluster follows the rules of the API server: resource versions and conflicts, watches,
    finalizers, generations, and the status subresource.  It runs no controllers and no webhooks.

    `create`, `patch` and `delete` act like another client, and return when the shards have nothing
    left to do.  Objects are named `namespace/name`; the namespace defaults to `default`.
    """

    def __init__(self, *resources: Resource, clock: FakeClock | None = None) -> None:
        """Start empty; `resources` are custom resources, made by `custom`."""
        self.clock = clock or FakeClock()
        self.reconciles = ReconcileCounts(self.clock)
        """How often the shards reconcile."""
        self.lease_store = FakeStore(Lease, LEASES, rules=Rules(now=self._now))
        self.rings: dict[RingName, ControllerRing] = {}
        """The rings that the shards can read."""
        self.denied: set[Right] = set()
        """The rights that shards lack; an open watch goes on until its store hangs up."""
        self.requests: list[str] = []
        """Reads of whole objects from the API server, not from a cache, such as `get demo`."""
        self._versions = Versions()
        self._resources = {**BUILT_IN, **{each.id: each for each in resources}}
        self._stores: dict[GroupResource, FakeStore[Tree]] = {}
        self._is_away = False
        self.lease_store.guard(request=self._require_answers, answer=self._require_answers)

    def leases(self, namespace: str) -> FakeStore[Lease]:
        """Return the Leases of a namespace."""
        return self.lease_store.selecting("", namespace=namespace)

    async def find(self, resource: GroupResource) -> Resource:
        """Return the resource; `NotFound` if it is not served."""
        try:
            return self._resources[resource]
        except KeyError:
            raise NotFound(f"the API server does not serve {resource}") from None

    async def ring(self, name: RingName) -> ControllerRing:
        """Return the ring; `NotFound` if there is none."""
        try:
            return self.rings[name]
        except KeyError:
            raise NotFound(f"there is no ControllerRing {name}") from None

    async def may(self, right: Right) -> bool:
        """Return whether shards have the right."""
        return right not in self.denied

    def objects(self, resource: Resource, labels: str) -> OwnObjects:
        """Return the metadata of the objects that match the label selector."""
        view = self._store(resource).decoding(OwnObject, labels)
        return ServedView(view, partial(self._require_access, resource))

    def whole(self, resource: Resource, labels: str) -> OwnObjects:
        """Return the whole objects that match the label selector."""
        view = WholeStore(self._store(resource), resource, labels)
        return ServedView(view, partial(self._require_access, resource))

    def documents(self, resource: Resource) -> FakeDocuments:
        """Return the whole objects."""
        return FakeDocuments(self._store(resource), self.requests)

    def statuses(self, resource: Resource) -> FakeDocuments:
        """Return the whole objects; patches go to their status."""
        return FakeDocuments(self._store(resource).status())

    def serve(self, resource: Resource) -> None:
        """Serve a resource in this version, and in no other, like a changed CRD."""
        self._resources[resource.id] = resource
        self._store(resource).hang_up()

    def withdraw(self, resource: str) -> None:
        """Serve a resource no longer, like a deleted CRD."""
        self.store(resource).hang_up()
        del self._resources[parse_resource(resource)]

    def store(self, resource: str) -> FakeStore[Tree]:
        """Return the objects of a resource, such as `secrets` or `deployments.apps`.

        With this store a test can fail requests, lose answers, or end watches.
        """
        return self._store(self._named(resource))

    async def create(self, body: Mapping[str, object]) -> Document:
        """Create the object, and return the stored object."""
        tree = as_tree(body)
        partial = msgspec.convert(tree, PartialObject)
        resource = self._of_kind(partial)
        namespace = (partial.metadata.namespace or "default") if resource.namespaced else ""
        created = await self._store(resource).create(namespace, tree)
        await self.advance(0)
        return created

    @overload
    async def get(self, resource: str, name: str) -> Document: ...

    @overload
    async def get(self, resource: str, name: str, shape: type[T]) -> T: ...

    async def get(self, resource: str, name: str, shape: type[T] | None = None) -> T | Document:
        """Return the object, decoded as by `Request.get`; `NotFound` if there is none."""
        tree = await self.store(resource).get(self.ref(resource, name))
        return tree if shape is None else decode(msgspec.Raw(msgspec.json.encode(tree)), shape)

    async def metadata(self, resource: str, name: str) -> OwnMeta:
        """Return the object's metadata, as `Request.metadata` does; `NotFound` if it is gone."""
        return (await self.get(resource, name, OwnObject)).metadata

    async def list(self, resource: str, labels: str = "") -> Sequence[Document]:
        """Return the objects that match the label selector, sorted by namespace and name."""
        return (await self.store(resource).selecting(labels).list()).items

    async def patch(self, resource: str, name: str, body: Mapping[str, object]) -> Document:
        """Merge `body` into the object, and return it."""
        patched = await self.store(resource).patch(self.ref(resource, name), as_tree(body))
        await self.advance(0)
        return patched

    async def patch_status(self, resource: str, name: str, body: Mapping[str, object]) -> Document:
        """Merge `body`, which is `{"status": {…}}`, into the status; return the object."""
        patched = (
            await self.store(resource).status().patch(self.ref(resource, name), as_tree(body))
        )
        await self.advance(0)
        return patched

    async def delete(self, resource: str, name: str) -> None:
        """Delete the object; if it has finalizers, it stays until they are removed."""
        store, ref = self.store(resource), self.ref(resource, name)
        meta = meta_of(await store.get(ref))
        await store.delete(ref, uid=meta.uid, resource_version=meta.resource_version)
        await self.advance(0)

    async def collect_garbage(self) -> None:
        """Delete the objects whose ownerReferences only name deleted objects, like Kubernetes."""
        while orphans := self._orphans():
            for store, ref in orphans:
                meta = meta_of(await store.get(ref))
                await store.delete(ref, uid=meta.uid, resource_version=meta.resource_version)
        await self.advance(0)

    def disconnect(self) -> None:
        """Fail the requests of all clients until `connect`; open watches show nothing."""
        self._is_away = True

    async def connect(self) -> None:
        """Answer requests again."""
        self._is_away = False
        await self.advance(0)

    async def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`, and let the shards work meanwhile.

        Raises:
            AssertionError: the shards are never done; the message names the object.
        """
        try:
            await self.clock.advance(seconds)
        except StillBusy as busy:
            if (most := self.reconciles.most()) is None:
                raise
            ref, count = most
            raise StillBusy(
                f"still busy after {count:,} reconciles of {ref}; does the reconcile write the "
                "object each time, or return a delay of 0?"
            ) from busy

    def ref(self, resource: str, name: str) -> ObjectRef:
        """Parse `namespace/name`; the namespace defaults to `default`, if the resource has any."""
        namespace, slash, bare = name.rpartition("/")
        if not self._named(resource).namespaced:
            return ObjectRef("", name)
        return ObjectRef(namespace if slash else "default", bare)

    def _orphans(self) -> Sequence[tuple[FakeStore[Tree], ObjectRef]]:
        trees = [(store, tree) for store in self._stores.values() for tree in store.now()]
        uids = {meta_of(tree).uid for _, tree in trees}
        return [
            (store, meta_of(tree).ref)
            for store, tree in trees
            if owner_uids(tree)
            and not owner_uids(tree) & uids
            and not meta_of(tree).deletion_timestamp
        ]

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

    def _store(self, resource: Resource) -> FakeStore[Tree]:
        if resource.id not in self._stores:
            rules = rules_of(resource, self._now)
            store = FakeStore(dict, resource, versions=self._versions, rules=rules)
            store.guard(request=self._require_answers, answer=self._require_answers)
            self._stores[resource.id] = store
        return self._stores[resource.id]

    def _require_access(self, resource: Resource, verb: str) -> None:
        """Raise unless the resource is served in this version, and shards have the right."""
        if self._resources.get(resource.id) != resource:
            raise NotFound(f"{resource.id} {resource.version}: 404 page not found")
        if Right(verb=verb, resource=resource.id) in self.denied:
            raise Forbidden(f"{resource.id} is forbidden: cannot {verb}")

    def _require_answers(self) -> None:
        if self._is_away:
            raise Unavailable("the API server does not answer")

    def _now(self) -> str:
        return self.clock.now().isoformat(timespec="seconds").replace("+00:00", "Z")
