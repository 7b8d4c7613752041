"""Work with fewer rights, and record which rights are missing.

Users of the reference have granted only `list` and `patch` on their resources (docs/protocol.md,
"Fewer rights").
"""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager

from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import Forbidden, NotFound
from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.core.status.conditions import advice
from sharder.ports import Objects


async def read(objects: Objects, resource: Resource, ref: ObjectRef) -> PartialObject:
    """Read the object, even if `list` is the only right.

    Raises:
        NotFound: it does not exist.
    """
    try:
        return await objects.of(resource).get(ref)
    except Forbidden:
        named = f"metadata.name={ref.name}"
        listed = await objects.of(resource, namespace=ref.namespace, fields=named).list()
    if not listed.items:
        raise NotFound(f"{resource.id} {ref} not found")
    return listed.items[0]


@contextmanager
def naming_the_rule(resource: GroupResource) -> Iterator[None]:
    """Add the missing RBAC rule to a `Forbidden` error."""
    try:
        yield
    except Forbidden as error:
        raise Forbidden(f"{error}; {advice((resource,))}") from error


class Watching:
    """Records which watches of the rings' resources are forbidden."""

    def __init__(self) -> None:
        self._allowed: dict[tuple[RingName, GroupResource, Hashable], bool] = {}

    def found(
        self, ring: RingName, resource: GroupResource, watch: Hashable, *, allowed: bool
    ) -> bool:
        """Record whether a watch is allowed; return whether that changed."""
        before = self._allowed.get((ring, resource, watch))
        self._allowed[ring, resource, watch] = allowed
        return before is not allowed

    def ended(self, ring: RingName, resource: GroupResource, watch: Hashable) -> None:
        """Forget a watch."""
        self._allowed.pop((ring, resource, watch), None)

    def refused(
        self, ring: RingName, resources: Iterable[GroupResource]
    ) -> tuple[GroupResource, ...] | None:
        """Return the resources that are polled, sorted; None while this is unknown."""
        found = [(resource, ok) for (of, resource, _), ok in self._allowed.items() if of == ring]
        refused = tuple(sorted({resource for resource, ok in found if not ok}))
        return (
            refused if refused or set(resources) <= {resource for resource, _ in found} else None
        )
