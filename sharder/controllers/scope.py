"""The requests that list and watch the objects of a ring, with the rights that there are.

Most objects of a cluster never get an owner label: if the requests did not follow the ring's
scope, the API server would send all these objects.  This only saves work; the ring's snapshot
decides whether an object is in scope.

Users of the reference have granted only `list` and `patch` on their resources (docs/protocol.md,
"Fewer rights").
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from typing_extensions import override

from sharder.core.api.meta import (
    NAME_LABEL,
    OPERATORS,
    LabelSelector,
    PartialObject,
    Requirement,
    Resource,
)
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import Forbidden, NotFound
from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import advice
from sharder.ports import Objects

NAMESPACES: Final = GroupResource("", "namespaces")
"""Each object of this resource is its own namespace."""

MAX_NAMESPACES = 20
"""Up to this number of namespaces, each can get its own requests, which cost watches."""

MAX_REQUESTS = 20
"""Up to this number of requests for each kind of list, namespaces times resources, namespaces
always get their own: one that cannot be read stops no other."""

MANY_OTHERS = 8
"""From more than this number of other namespaces on, one request for all reads too much."""


class Part(NamedTuple):
    """A resource of a ring, in one namespace, or in all namespaces of the ring.

    Parts are listed, counted and retried each for itself: one that fails stops no other one.
    """

    ring: RingName
    resource: GroupResource
    namespace: str = ""

    @override
    def __str__(self) -> str:
        return f"{self.resource} in {self.namespace}" if self.namespace else str(self.resource)

    @property
    def whole(self) -> "Part":
        """The resource in all namespaces."""
        return self._replace(namespace="")

    def key(self, ref: ObjectRef) -> "ObjectKey":
        """Return the key of an object of the resource."""
        return ObjectKey(self.ring, self.resource, ref)

    def includes(self, other: "Part") -> bool:
        """Return whether all objects of another part are in this one."""
        return self.whole == other.whole and self.namespace in {"", other.namespace}


class ObjectKey(NamedTuple):
    """An object of a ring's resource."""

    ring: RingName
    resource: GroupResource
    ref: ObjectRef

    @property
    def part(self) -> Part:
        """The objects of its resource and its namespace."""
        return Part(self.ring, self.resource, self.ref.namespace)


ListScope: TypeAlias = tuple[str, ...]
"""The namespaces of the requests that together return all objects in scope."""

WHOLE: Final[ListScope] = ("",)
"""One request for all namespaces, and for cluster-scoped resources."""


def splits(
    ring: ControllerRing, selected: frozenset[str], known: Collection[str], *, resources: int
) -> bool:
    """Return whether each namespace of a ring gets its own requests.

    A ring that names its namespaces needs no rights in others.  Otherwise one request for all is
    cheaper, if it reads few other namespaces.
    """
    if len(selected) > MAX_NAMESPACES:
        return False
    is_cheap = len(selected) * resources <= MAX_REQUESTS
    reads_others = len(known) - len(selected) > MANY_OTHERS
    return is_cheap or reads_others or _names_namespaces(ring.spec.namespace_selector)


def scope_of(snapshot: RingSnapshot) -> ListScope:
    """Return the namespaces of the requests for a ring."""
    if snapshot.is_split:
        return tuple(sorted(snapshot.namespaces))
    return WHOLE


class Watch(NamedTuple):
    """The watch of one resource, in requests that start and end together."""

    part: Part
    role: Role
    labels: str
    draining: bool
    list_scope: ListScope


def watches_of(snapshot: RingSnapshot) -> Iterator[Watch]:
    """Yield the watches of a ring, for unassigned and for draining objects.

    Few objects drain, so one watch over all namespaces shows them, and continues while namespaces
    come and go.  For a ring that selects namespaces by name, the sharder needs no rights in other
    namespaces.
    """
    list_scope = scope_of(snapshot)
    drains = list_scope if _names_namespaces(snapshot.ring.spec.namespace_selector) else WHOLE
    selector = selector_text(snapshot.ring.spec.object_selector)
    for resource, role in snapshot.roles.items():
        part = Part(snapshot.name, resource)
        selected = selector if role is not Role.CONTROLLED else ""
        labels = ",".join(filter(None, (f"!{snapshot.owner_label}", selected)))
        yield Watch(part, role, labels, draining=False, list_scope=list_scope)
        if role is not Role.CONTROLLED:
            yield Watch(part, role, snapshot.drain_label, draining=True, list_scope=drains)


def _names_namespaces(selector: LabelSelector | None) -> bool:
    """Return whether a selector lists so few namespaces that each gets its own requests."""
    return selector is not None and any(
        requirement.key == NAME_LABEL
        and requirement.operator == "In"
        and len(requirement.values or ()) <= MAX_NAMESPACES
        for requirement in selector.match_expressions
    )


def selector_text(selector: LabelSelector | None) -> str:
    """Return a LabelSelector in the syntax of requests, empty if all objects match.

    A requirement that the server would reject is omitted, so the text can match too many objects.
    """
    if selector is None:
        return ""
    pairs = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    texts = (_text(requirement) for requirement in selector.match_expressions)
    return ",".join([*pairs, *filter(None, texts)])


def _text(requirement: Requirement) -> str:
    if requirement.operator not in OPERATORS:
        return ""
    if requirement.operator in {"Exists", "DoesNotExist"}:
        return requirement.key if requirement.operator == "Exists" else f"!{requirement.key}"
    if not requirement.values:
        return ""
    word = "in" if requirement.operator == "In" else "notin"
    return f"{requirement.key} {word} ({','.join(requirement.values)})"


def requests_of(resource: Resource, list_scope: ListScope) -> ListScope:
    """Return the namespaces of the requests for a resource of a ring."""
    return list_scope if resource.namespaced else WHOLE


def parts_of(snapshot: RingSnapshot) -> set[Part]:
    """Return the parts of a ring, as its main resources are listed."""
    return {
        Part(snapshot.name, main.id, namespace)
        for main in snapshot.resources
        for namespace in (WHOLE if main.id in snapshot.cluster_scoped else scope_of(snapshot))
    }


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
        self._allowed: dict[tuple[Part, Hashable], bool] = {}

    def found(self, part: Part, watch: Hashable, *, allowed: bool) -> bool:
        """Record whether a watch is allowed; return whether that changed."""
        before = self._allowed.get((part, watch))
        self._allowed[part, watch] = allowed
        return before is not allowed

    def ended(self, part: Part, watch: Hashable) -> None:
        """Forget a watch."""
        self._allowed.pop((part, watch), None)

    def refused(
        self, ring: RingName, resources: Iterable[GroupResource]
    ) -> tuple[GroupResource, ...] | None:
        """Return the resources that are polled, sorted; None while this is unknown."""
        found = [(of.resource, ok) for (of, _), ok in self._allowed.items() if of.ring == ring]
        refused = tuple(sorted({resource for resource, ok in found if not ok}))
        return (
            refused if refused or set(resources) <= {resource for resource, _ in found} else None
        )
