"""Read single objects again before anything is decided about them."""

from collections import defaultdict
from collections.abc import Collection

from sharder.api.meta import ObjectMeta, PartialObject
from sharder.api.resource import Resource
from sharder.controllers.movement.batch import batch
from sharder.controllers.movement.cover import ownerless_labels
from sharder.controllers.movement.failures import Failures
from sharder.controllers.movement.rights import read
from sharder.controllers.movement.waiting import Flow, Subject
from sharder.errors import ApiError, InvalidObject, NotFound
from sharder.names import ObjectRef
from sharder.ports import Objects
from sharder.snapshot import RingSnapshot, Role

LIST_FROM = 10
"""So many objects of one namespace are rather listed than read one by one.

Only where nearly everything has an owner, so that the list of what has none is short: not so
controlled resources.
"""


class Reading:
    """Finds those of a resource's objects that need a step: without owner, or failed before."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        resource: Resource,
        *,
        objects: Objects,
        failures: Failures,
        limit: int,
    ) -> None:
        """`limit` bounds the requests under way at once."""
        self._snapshot = snapshot
        self._resource = resource
        self._objects = objects
        self._failures = failures
        self._limit = limit
        self._role = snapshot.roles[resource.id]
        self._found = list[PartialObject]()

    async def run(self, refs: Collection[ObjectRef]) -> list[PartialObject]:
        """Return the objects that need a step; that others need none is noted.

        Raises:
            ApiError: the objects of a namespace could not be listed.
        """
        single = set(refs)
        async with batch(self._limit) as reads:
            for namespace, many in self._to_list(refs).items():
                single -= many
                await reads.add(self._list(namespace, many))
            for ref in single:
                await reads.add(self._read(ref))
        return self._found

    def _to_list(self, refs: Collection[ObjectRef]) -> dict[str, set[ObjectRef]]:
        """Return by namespace what is listed; what failed may have an owner."""
        by_namespace = defaultdict[str, set[ObjectRef]](set)
        if self._role is not Role.CONTROLLED:
            for ref in refs:
                if self._subject(ref) not in self._failures:
                    by_namespace[ref.namespace].add(ref)
        return {name: many for name, many in by_namespace.items() if len(many) >= LIST_FROM}

    async def _list(self, namespace: str, refs: set[ObjectRef]) -> None:
        labels = ownerless_labels(self._snapshot, self._role)
        store = self._objects.of(self._resource, labels, namespace=namespace)
        listed = await store.list(lambda obj: obj.metadata.ref in refs)
        self._found += filter(self._snapshot.selects, listed.items)

    async def _read(self, ref: ObjectRef) -> None:
        subject = self._subject(ref)
        try:
            obj = await read(self._objects, self._resource, ref)
        except NotFound:
            self._failures.over(subject)
        except (ApiError, InvalidObject) as error:
            await self._failures.failed(subject, self._unread(ref), error)
        else:
            needed = self._snapshot.owner_of(obj) is None or subject in self._failures
            if needed and self._snapshot.selects(obj, self._role):
                self._found.append(obj)
            else:
                self._failures.over(subject)

    def _subject(self, ref: ObjectRef) -> Subject:
        return Subject(Flow(self._snapshot.name, self._resource.id), ref)

    def _unread(self, ref: ObjectRef) -> PartialObject:
        """Return what is known of an object that cannot be read, for people to be told of it."""
        group, version = self._resource.id.group, self._resource.version
        return PartialObject(
            api_version=f"{group}/{version}" if group else version,
            kind=self._resource.kind,
            metadata=ObjectMeta(name=ref.name, namespace=ref.namespace),
        )
