"""The namespaces that rings select."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharder.core.api.selector import LabelSelector
from sharder.core.names import RingName

Labels = Mapping[str, str]


@dataclass(slots=True)
class _Selection:
    """The namespaces of one ring."""

    selector: LabelSelector
    names: frozenset[str]
    """The same object until the selection changes."""
    fresh: set[str] = field(default_factory=set)
    """Namespaces that have been selected since their creation: they were empty at first."""


class NamespaceSelection:
    """All namespaces, and the selections of all rings."""

    def __init__(self, excluded: frozenset[str]) -> None:
        """Start without namespaces; `excluded` namespaces are never selected."""
        self._excluded = excluded
        self._labels: dict[str, Labels] = {}
        self._selections: dict[RingName, _Selection] = {}
        self.known = frozenset[str]()
        """The names of all namespaces; the same object until one is created or deleted."""

    def replace(self, namespaces: Mapping[str, Labels]) -> set[RingName]:
        """Replace all namespaces; return the rings whose selection changes."""
        affected = set[RingName]()
        for name in self._labels.keys() - namespaces.keys():
            affected |= self._change(name, None)
        for name, labels in namespaces.items():
            affected |= self._change(name, labels)
        self.known = frozenset(self._labels)
        return affected

    def change(self, name: str, labels: Labels | None) -> set[RingName]:
        """Store a namespace, or with None remove it; return the rings whose selection changes."""
        affected = self._change(name, labels)
        if (name in self.known) != (name in self._labels):
            self.known = frozenset(self._labels)
        return affected

    def _change(self, name: str, labels: Labels | None) -> set[RingName]:
        before = self._labels.get(name)
        if labels == before:
            return set()
        if labels is None:
            del self._labels[name]
        else:
            self._labels[name] = labels
        affected = set[RingName]()
        for ring, selection in self._selections.items():
            selected = labels is not None and self._selects(selection.selector, name, labels)
            if selected != (name in selection.names):
                selection.names ^= {name}
                if selected and before is None:
                    selection.fresh.add(name)
                else:
                    selection.fresh.discard(name)
                affected.add(ring)
        return affected

    def of(self, ring: RingName, selector: LabelSelector) -> frozenset[str]:
        """Return the namespaces of a ring; the same object until they change."""
        selection = self._selections.get(ring)
        if selection is None or selection.selector != selector:
            selection = _Selection(selector, self.matching(selector))
            self._selections[ring] = selection
        return selection.names

    def selects(self, ring: RingName, name: str) -> bool | None:
        """Return whether the ring selects a namespace, None if one of them is unknown."""
        selection = self._selections.get(ring)
        return name in selection.names if selection and name in self._labels else None

    def is_fresh(self, ring: RingName, name: str) -> bool:
        """Return whether the ring has selected a namespace since the namespace was created."""
        selection = self._selections.get(ring)
        return selection is not None and name in selection.fresh

    def matching(self, selector: LabelSelector) -> frozenset[str]:
        """Return the namespaces that a selector selects now; the selector is not stored."""
        return frozenset(
            name for name, labels in self._labels.items() if self._selects(selector, name, labels)
        )

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._selections.pop(ring, None)

    def _selects(self, selector: LabelSelector, name: str, labels: Labels) -> bool:
        return name not in self._excluded and selector.matches(labels)
