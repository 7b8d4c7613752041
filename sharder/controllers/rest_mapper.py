"""The kinds of the rings' main resources, as the API server serves them.

Object keys contain the kind, and controlled objects name their owner by kind, so the webhook and
the leader need the kinds before they place objects.
"""

from collections.abc import Iterable, Iterator

from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError
from sharder.core.names import GroupResource
from sharder.core.ring.build import sharded_resources
from sharder.ports import Objects


class RestMapper:
    """Discovers each resource once and keeps the answer."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._served: dict[GroupResource, Resource] = {}

    def of(self, ring: ControllerRing) -> Iterator[Resource]:
        """Yield the ring's main resources that are known to be served."""
        for resource in sharded_resources(ring):
            if resource.id in self._served:
                yield self._served[resource.id]

    async def learn(self, rings: Iterable[ControllerRing]) -> bool:
        """Discover the unknown resources of `rings`; return whether any was found.

        A resource that cannot be discovered is not an error here: the resync reports it.
        """
        wanted = {resource.id for ring in rings for resource in sharded_resources(ring)}
        learned = False
        for resource in sorted(wanted - self._served.keys()):
            try:
                self._served[resource] = await self._objects.find(resource)
            except ApiError:
                continue
            learned = True
        return learned
