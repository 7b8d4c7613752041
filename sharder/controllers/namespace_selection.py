"""The namespaces that rings select, computed once for all rings with the same selector.

A changed namespace costs one evaluation per distinct selector, and one new set per changed
selection; all rings with the same selector share the set.
"""

from collections.abc import Collection, Mapping

import msgspec

from sharder.core.api.selector import LabelSelector
from sharder.core.names import RingName

Labels = Mapping[str, str]


class _Selection:
    """The namespaces of one selector."""

    def __init__(self, selector: LabelSelector, names: frozenset[str]) -> None:
        self.selector = selector
        self.rings = set[RingName]()
        self.selected = set(names)
        self.fresh = set[str]()
        """Namespaces that have been selected since their creation: they were empty at first."""
        self._names: frozenset[str] | None = names

    def note(self, name: str, *, selected: bool, is_new: bool) -> bool:
        """Record whether a namespace is selected; return whether that changed."""
        if (name in self.selected) == selected:
            return False
        self._names = None
        (self.selected.add if selected else self.selected.discard)(name)
        (self.fresh.add if selected and is_new else self.fresh.discard)(name)
        return True

    def names(self) -> frozenset[str]:
        """Return the namespaces; the same object until the selection changes."""
        if self._names is None:
            self._names = frozenset(self.selected)
        return self._names


class NamespaceSelection:
    """All namespaces, and the selections of all rings."""

    def __init__(self, excluded: frozenset[str]) -> None:
        """Start without namespaces; `excluded` namespaces are never selected."""
        self._excluded = excluded
        self._labels: dict[str, Labels] = {}
        self._known: frozenset[str] | None = frozenset()
        self._selections: dict[bytes, _Selection] = {}
        self._keys: dict[RingName, bytes] = {}

    @property
    def known(self) -> frozenset[str]:
        """The names of all namespaces; the same object until one is created or deleted."""
        if self._known is None:
            self._known = frozenset(self._labels)
        return self._known

    def replace(self, namespaces: Mapping[str, Labels]) -> set[RingName]:
        """Replace all namespaces; return the rings whose selection changes."""
        affected = set[RingName]()
        for name in self._labels.keys() - namespaces.keys():
            affected.update(self.change(name, None))
        for name, labels in namespaces.items():
            affected.update(self.change(name, labels))
        return affected

    def change(self, name: str, labels: Labels | None) -> Collection[RingName]:
        """Store a namespace, or with None remove it; return the rings whose selection changes."""
        before = self._labels.get(name)
        if before == labels:
            return ()
        if labels is None:
            del self._labels[name]
        else:
            self._labels[name] = labels
        if before is None or labels is None:
            self._known = None
        affected: set[RingName] = set()
        for selection in self._selections.values():
            selected = labels is not None and self._selects(selection.selector, name, labels)
            if selection.note(name, selected=selected, is_new=before is None):
                affected |= selection.rings
        return affected

    def of(self, ring: RingName, selector: LabelSelector) -> frozenset[str]:
        """Return the namespaces that the ring selects; the selection is updated until `forget`.

        Rings with equal selectors get the same object until the selection changes.
        """
        key = msgspec.json.encode(selector, order="deterministic")
        if self._keys.get(ring) != key:
            self.forget(ring)
            self._keys[ring] = key
        selection = self._selections.get(key)
        if selection is None:
            selection = self._selections[key] = _Selection(selector, self.matching(selector))
        selection.rings.add(ring)
        return selection.names()

    def selects(self, ring: RingName, name: str) -> bool | None:
        """Return whether the ring selects a namespace, None if one of them is unknown."""
        key = self._keys.get(ring)
        if key is None or name not in self._labels:
            return None
        return name in self._selections[key].selected

    def is_fresh(self, ring: RingName, name: str) -> bool:
        """Return whether the ring has selected a namespace since the namespace was created."""
        key = self._keys.get(ring)
        return key is not None and name in self._selections[key].fresh

    def matching(self, selector: LabelSelector) -> frozenset[str]:
        """Return the namespaces that a selector selects now; the selector is not stored."""
        return frozenset(
            name for name, labels in self._labels.items() if self._selects(selector, name, labels)
        )

    def forget(self, ring: RingName) -> None:
        """Drop the selection of a ring that was deleted or has another selector."""
        key = self._keys.pop(ring, None)
        if key is None:
            return
        selection = self._selections[key]
        selection.rings.discard(ring)
        if not selection.rings:
            del self._selections[key]

    def _selects(self, selector: LabelSelector, name: str, labels: Labels) -> bool:
        return name not in self._excluded and selector.matches(labels)
