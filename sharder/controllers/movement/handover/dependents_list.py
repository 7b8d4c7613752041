"""List the dependents of objects that are handed over."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Set
from typing import NamedTuple

from sharder.controllers.movement.handover.handover_queue import UNKNOWN
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects


class Dependent(NamedTuple):
    """A controlled object, as it was listed."""

    resource: Resource
    obj: PartialObject
    controller: str
    """The uid of its controller."""


class DependentsList:
    """The dependents of one ring's objects."""

    def __init__(self, snapshot: RingSnapshot, objects: Objects) -> None:
        self._snapshot = snapshot
        self._objects = objects

    async def of(
        self, main: GroupResource, parents: Mapping[str, PartialObject], shards: Set[ShardName]
    ) -> AsyncGenerator[Dependent, None]:
        """Yield the dependents of objects of a main resource.

        Args:
            main: The resource.
            parents: The objects by uid.
            shards: The shards on which the dependents can be; with `UNKNOWN`, any shard or none.
        """
        names = "" if UNKNOWN in shards else ",".join(sorted(shards))
        labels = f"{self._snapshot.owner_label} in ({names})" if names else ""
        for entry in self._snapshot.resources if parents else ():
            for controlled in entry.controlled_resources if entry.id == main else ():
                if self._snapshot.roles[controlled.id] is Role.CONTROLLED:
                    async for each in self._list(controlled.id, parents, labels):
                        yield each

    async def _list(
        self, of: GroupResource, parents: Mapping[str, PartialObject], labels: str
    ) -> AsyncGenerator[Dependent, None]:
        try:
            resource = await self._objects.find(of)
            for namespace in _namespaces_of(resource, parents):
                async for obj in self._objects.of(resource, labels, namespace=namespace).stream():
                    reference = obj.metadata.controller
                    if reference is not None and reference.uid in parents:
                        yield Dependent(resource, obj, reference.uid)
        except NotFound:
            return  # it is not served, so there are none


def _namespaces_of(resource: Resource, parents: Mapping[str, PartialObject]) -> Iterator[str]:
    """Yield the namespaces of the dependents; the empty one stands for all."""
    namespaces = {parent.metadata.namespace for parent in parents.values()}
    if not resource.namespaced or "" in namespaces or len(namespaces) > MAX_NAMESPACES:
        yield ""
    else:
        yield from sorted(namespaces)
