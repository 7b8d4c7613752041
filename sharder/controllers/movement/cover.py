"""What to ask the API server for when looking for objects without owner.

Most objects of a cluster have no owner label and never will: what is asked for must follow the
ring's scope, or each of them is sent to us (docs/protocol.md, "Exceptions").  All of this saves
work only; whether an object is in scope says the ring's snapshot.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from sharder.api.selector import OPERATORS, LabelSelector, Requirement
from sharder.controllers.movement.waiting import Flow
from sharder.names import EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE
from sharder.snapshot import RingSnapshot, Role

MAX_NAMESPACES = 20
"""Up to so many namespaces are asked for one by one: each costs a watch."""

MAX_EXCLUDED = 8
"""So many namespaces can be left out of a request over all: the server compares each object."""

EXCLUDED_FIRST = (EXCLUDED_NAMESPACE, SYSTEM_NAMESPACE)
"""Never in scope, and full of objects; the sharder may live elsewhere."""


class Slice(NamedTuple):
    """One request: over a namespace, or over all but some."""

    namespace: str = ""
    excluded: tuple[str, ...] = ()

    @property
    def fields(self) -> str:
        """The field selector."""
        return ",".join(f"metadata.namespace!={namespace}" for namespace in self.excluded)

    def holds(self, namespace: str) -> bool:
        """Tell whether objects of the namespace are asked for."""
        return self.namespace in {"", namespace}


Cover = tuple[Slice, ...]
"""Requests that together show all objects in scope."""

WHOLE: Cover = (Slice(),)
"""For resources without namespaces."""


def cover_of(selected: frozenset[str], known: Collection[str], previous: Cover = ()) -> Cover:
    """Return the requests for a ring over the namespaces `selected` of those `known`.

    A `previous` cover is kept while it leaves out nothing that is selected, so that namespaces
    that come and go restart no watch.
    """
    if len(selected) <= MAX_NAMESPACES:
        return tuple(Slice(namespace) for namespace in sorted(selected))
    if previous and previous[0].excluded and selected.isdisjoint(previous[0].excluded):
        return previous
    others = sorted(set(known) - selected - set(EXCLUDED_FIRST))
    first = [n for n in EXCLUDED_FIRST if n in known and n not in selected]
    return (Slice(excluded=tuple([*first, *others][:MAX_EXCLUDED])),)


class Watch(NamedTuple):
    """What is watched of a resource, in requests that begin and end together."""

    flow: Flow
    role: Role
    labels: str
    draining: bool
    cover: Cover


def watches_of(snapshot: RingSnapshot, cover: Cover) -> Iterator[Watch]:
    """Yield what has to be watched of a ring: what has no owner, and what is being drained."""
    for resource, role in snapshot.roles.items():
        flow, labels = Flow(snapshot.name, resource), ownerless_labels(snapshot, role)
        yield Watch(flow, role, labels, draining=False, cover=cover)
        if role is not Role.CONTROLLED:
            yield Watch(flow, role, snapshot.drain_label, draining=True, cover=WHOLE)


def ownerless_labels(snapshot: RingSnapshot, role: Role) -> str:
    """Return the label selector of a ring's objects without owner."""
    is_selected = role is not Role.CONTROLLED
    selector = selector_text(snapshot.ring.spec.object_selector if is_selected else None)
    return ",".join(filter(None, (f"!{snapshot.owner_label}", selector)))


def selector_text(selector: LabelSelector | None) -> str:
    """Return a LabelSelector as a request takes it, empty if all objects match.

    A requirement that no server would take is left out: the text may match too much.
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
