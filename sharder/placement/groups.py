"""Which objects belong together (docs/placement.md, "Groups").

Source: Kubernetes SelectorSpread counts for a pod those pods of its namespace that match all
selectors which match it.  So an object's group is described by its *traits*, and it counts for
every object whose traits are among its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from xxhash import xxh3_64_intdigest

from sharder.api.meta import ObjectMeta, PartialObject
from sharder.api.ring import GroupBy

NO_GROUP = 0
"""Stands for "belongs together with nothing"."""

MAX_TRAITS = 7
"""Further traits of an object are left out, for each doubles its groups: as many as the schema of
a ring allows."""

_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class Grouping:
    """Finds the group of an object."""

    by: GroupBy

    def groups_of(self, obj: PartialObject) -> tuple[int, ...]:
        """Return all groups that the object counts for: one for each set of its traits.

        The last one is that of all of them, which is the group that the object looks for.
        """
        traits = self._traits(obj.metadata)
        if len(traits) < 2:  # as nearly everywhere
            return tuple(_digest(obj.metadata.namespace, (trait,)) for trait in traits)
        return tuple(
            _digest(obj.metadata.namespace, some)
            for size in range(1, len(traits) + 1)
            for some in combinations(traits, size)
        )

    def in_words(self, obj: PartialObject) -> tuple[str, ...]:
        """Return what the members of the object's group have in common, for people."""
        traits = (trait.split(_SEPARATOR) for trait in self._traits(obj.metadata))
        return tuple(f"{what} {'='.join(which)}" for what, *which in traits)

    def _traits(self, meta: ObjectMeta) -> list[str]:
        labels = meta.labels or {}
        traits = [
            f"label{_SEPARATOR}{key}{_SEPARATOR}{labels[key]}"
            for key in self.by.labels
            if key in labels
        ]
        for index, selector in enumerate(self.by.selectors):
            if selector.matches(labels):
                traits.append(f"selector{_SEPARATOR}{index}")
        controller = meta.controller if self.by.owner else None
        if controller is not None:
            traits.append(f"owner{_SEPARATOR}{controller.uid}")
        return traits[:MAX_TRAITS]


def _digest(namespace: str, traits: Sequence[str]) -> int:
    text = _SEPARATOR.join((namespace, *traits))
    return xxh3_64_intdigest(text.encode()) or 1  # 0 is `NO_GROUP`
