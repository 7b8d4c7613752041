"""List a ring's objects of one resource, request by request as its scope asks for."""

from collections.abc import AsyncGenerator

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.controllers.movement.cover import WHOLE, Cover
from sharder.ports import Objects
from sharder.runtime.watch import closing


async def stream(
    objects: Objects, resource: Resource, cover: Cover, labels: str = ""
) -> AsyncGenerator[PartialObject, None]:
    """Yield the objects that match, page by page; some of them may be out of the ring's scope."""
    for part in cover if resource.namespaced else WHOLE:
        store = objects.of(resource, labels, namespace=part.namespace, fields=part.fields)
        async with closing(store.stream()) as found:
            async for obj in found:
                yield obj
