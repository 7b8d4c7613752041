"""List the dependents of objects that are handed over."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch

UNKNOWN = ShardName("")
"""The shard of an object if the releasing shard is unknown."""

CONCURRENT_LISTS = 8
"""Lists at the same time: each holds a page."""


Reading = Callable[[GroupResource, str], AbstractContextManager[None]]
"""Returns a context for a read of a resource in a namespace."""


class Dependent(NamedTuple):
    """A controlled object, as it was listed."""

    resource: Resource
    obj: PartialObject
    controller: str
    """The uid of its controller."""


class DependentsList:
    """The dependents of one ring's objects."""

    def __init__(self, snapshot: RingSnapshot, objects: Objects, reading: Reading) -> None:
        """`reading` handles the errors of each read."""
        self._snapshot = snapshot
        self._objects = objects
        self._reading = reading

    async def of(
        self, main: GroupResource, parents: Mapping[str, PartialObject], shards: Set[ShardName]
    ) -> Mapping[str, list[Dependent]]:
        """Return the dependents of objects of a main resource, by the uid of their controller.

        Args:
            main: The resource.
            parents: The objects by uid.
            shards: The shards on which the dependents can be; with `UNKNOWN`, any shard or none.
        """
        names = "" if UNKNOWN in shards else ",".join(sorted(shards))
        labels = f"{self._snapshot.owner_label} in ({names})" if names else ""
        found = defaultdict[str, list[Dependent]](list)

        async def read(resource: Resource, namespace: str) -> None:
            # It is not served any more, so there are none.
            with self._reading(resource.id, namespace), suppress(NotFound):
                async for obj in self._objects.of(resource, labels, namespace=namespace).stream():
                    reference = obj.metadata.controller
                    if reference is not None and reference.uid in parents:
                        found[reference.uid].append(Dependent(resource, obj, reference.uid))

        async with batch(CONCURRENT_LISTS) as lists:
            for controlled in self._controlled_by(main) if parents else ():
                with self._reading(controlled, ""), suppress(NotFound):
                    resource = await self._objects.find(controlled)
                    for namespace in _namespaces_of(resource, parents):
                        await lists.add(read(resource, namespace))
        return found

    def _controlled_by(self, main: GroupResource) -> Iterator[GroupResource]:
        for entry in self._snapshot.resources:
            for controlled in entry.controlled_resources if entry.id == main else ():
                if self._snapshot.roles[controlled.id] is Role.CONTROLLED:
                    yield controlled.id


def _namespaces_of(resource: Resource, parents: Mapping[str, PartialObject]) -> Iterator[str]:
    """Yield the namespaces of the dependents; the empty one stands for all."""
    namespaces = {parent.metadata.namespace for parent in parents.values()}
    if not resource.namespaced or "" in namespaces or len(namespaces) > MAX_NAMESPACES:
        yield ""
    else:
        yield from sorted(namespaces)
