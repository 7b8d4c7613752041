"""What an object asks for, and which objects form a group (docs/placement.md).

Every client that can write an object can write its labels and annotations.  An invalid value is
ignored, and `invalid_annotations` reports it.

Source of the groups: for each pod, Kubernetes SelectorSpread counts the pods in its namespace that
match all selectors which match the pod.  So the *traits* of an object define its group, and the
object counts as a member for every object whose traits are a subset of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec
from xxhash import xxh3_64_intdigest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import (
    LOAD_ANNOTATION,
    MOVE_COST_ANNOTATION,
    POOL_LABEL,
    REGION_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ZONE_LABEL,
    RingName,
    ShardName,
    is_label_value,
    pin_label,
)
from sharder.core.texts import quantities

NO_GROUP = 0
"""The group of an object that is in no group."""

MAX_TRAITS = 7
"""Further traits of an object are ignored, because each trait doubles the number of its groups.
The schema of a ring allows no more."""

MAX_PLACES: Final = 4
"""Up to this number of pools, regions or zones, each is asked for the objects that do not belong
there; otherwise all objects with such a label are read."""

_SEPARATOR = "\0"


def _digest(namespace: str, traits: Sequence[str]) -> int:
    text = _SEPARATOR.join((namespace, *traits))
    return xxh3_64_intdigest(text.encode()) or 1  # 0 is `NO_GROUP`


MAX_MOVE_COST: Final = 2**31 - 1
"""An object with this cost never moves for balance, like Koordinator's eviction cost."""


class Demand(msgspec.Struct, frozen=True, gc=False):
    """An object as placement uses it."""

    key: str
    """The key by which it is hashed."""
    identity: int
    """The identity by which it is counted: 64 bits of a hash of its `main_key`."""
    current: ShardName | None = None
    """The shard that works on the object."""
    pin: ShardName | None = None
    region: str = ""
    zone: str = ""
    pool: str = ""
    """The pool that the object asks for, and likewise region and zone; empty: any."""
    group: int = NO_GROUP
    groups: tuple[int, ...] = ()
    """All groups for which it counts."""
    moves: bool = False
    """Whether it had a shard that is gone or has to release it; else the object is new."""


def identity_of(main_key: str) -> int:
    """Return an object's identity.

    The probability that two of 100,000 objects have the same identity is 3 in 10^10.
    """
    return xxh3_64_intdigest(main_key.encode())


class Reader:
    """Reads the labels and annotations of one ring's objects."""

    __slots__ = ("_asked", "_asking", "_by", "_has_groups", "_pin")

    def __init__(self, ring: RingName, spec: PlacementSpec) -> None:
        self._pin = pin_label(ring)
        self._by = spec.group_by
        self._has_groups = spec.group_by != GroupBy()
        self._asked = (*_ASKED, *(_TOPOLOGY if spec.use_topology_labels else ()))
        self._asking = {self._pin, *(label for _, label in self._asked)}

    def demand(
        self,
        obj: PartialObject,
        *,
        key: str,
        identity: int,
        current: ShardName | None,
        moves: bool = False,
    ) -> Demand:
        """Return what the object asks for; an invalid pin is ignored."""
        groups = self.groups_of(obj)
        group = groups[-1] if groups else NO_GROUP  # the group with all its traits
        labels = obj.metadata.labels
        if not labels or self._asking.isdisjoint(labels):
            return Demand(key, identity, current, group=group, groups=groups, moves=moves)
        return Demand(
            key,
            identity,
            current,
            pin=self.pin_of(obj),
            region=self._wanted(labels, "region"),
            zone=self._wanted(labels, "zone"),
            pool=self._wanted(labels, "pool"),
            group=group,
            groups=groups,
            moves=moves,
        )

    def pin_of(self, obj: PartialObject) -> ShardName | None:
        """Return the shard to which the object is pinned, None if it is not."""
        pin = obj.metadata.label(self._pin)
        return ShardName(pin) if pin and is_label_value(pin) else None

    def misplaced_on(self, shards: Sequence[Shard]) -> Iterator[tuple[list[ShardName], str]]:
        """Yield shards, each time with a label selector for their objects.

        Together they match all objects that ask for another pool, region or zone than their shard
        has.  If all shards have the same one, there is none to go to.
        """
        for what, label in self._asked:
            names = defaultdict[str, list[ShardName]](list)
            for shard in shards:
                names[getattr(shard, what)].append(shard.name)
            if len(names) > MAX_PLACES:
                yield [shard.name for shard in shards], label
            elif len(names) > 1:
                for place, there in names.items():
                    yield there, f"{label},{label}!={place}" if place else label

    def groups_of(self, obj: PartialObject) -> tuple[int, ...]:
        """Return all groups for which the object counts: one for each set of its traits.

        The last one is the object's own group, which has all its traits.
        """
        traits = self._traits(obj.metadata) if self._has_groups else ()
        if len(traits) < 2:  # the usual case
            return tuple([_digest(obj.metadata.namespace, (trait,)) for trait in traits])
        return tuple(
            _digest(obj.metadata.namespace, some)
            for size in range(1, len(traits) + 1)
            for some in combinations(traits, size)
        )

    def group_in_words(self, obj: PartialObject) -> tuple[str, ...]:
        """Return the traits of the object's group, for people."""
        traits = (trait.split(_SEPARATOR) for trait in self._traits(obj.metadata))
        return tuple(f"{what} {'='.join(which)}" for what, *which in traits)

    def _traits(self, meta: ObjectMeta) -> list[str]:
        labels, by = meta.labels or {}, self._by
        traits = [
            f"label{_SEPARATOR}{key}{_SEPARATOR}{labels[key]}"
            for key in by.labels
            if key in labels
        ]
        for index, selector in enumerate(by.selectors):
            if selector.matches(labels):
                traits.append(f"selector{_SEPARATOR}{index}")
        controller = meta.controller if by.owner else None
        if controller is not None:
            traits.append(f"owner{_SEPARATOR}{controller.uid}")
        return traits[:MAX_TRAITS]

    def invalid_annotations(self, obj: PartialObject) -> Iterator[str]:
        """Yield which labels and annotations of the object are ignored, and why."""
        labels, annotations = obj.metadata.labels or {}, obj.metadata.annotations or {}
        for key in (self._pin, *(label for _, label in _ASKED)):
            if key in labels and not is_label_value(labels[key]):
                yield f"the label {key} is ignored: it is empty or not a valid label value"
        for key, read in _READERS if annotations else ():
            try:
                if key in annotations:
                    read(annotations[key])
            except ValueError as error:
                yield f"the annotation {key} is ignored: {error}"

    def _wanted(self, labels: dict[str, str], what: str) -> str:
        values = (labels.get(label) for name, label in self._asked if name == what)
        return next(filter(None, values), "")


_ASKED: Final = (
    ("pool", POOL_LABEL),
    ("region", WANTED_REGION_LABEL),
    ("zone", WANTED_ZONE_LABEL),
)
"""What an object asks for, by the name of the field of demands and shards, and its label."""

_TOPOLOGY: Final = (("region", REGION_LABEL), ("zone", ZONE_LABEL))


def exclusion(shard: Shard, demand: Demand) -> str | None:
    """Return which label of the object excludes the shard, None if none does."""
    for what, _ in _ASKED:
        asked: str = getattr(demand, what)
        if asked and asked != getattr(shard, what):
            return f"the object asks for the {what} {asked}"
    return None


def move_cost(text: str) -> int:
    """Return the cost in an annotation; a ValueError says why it is invalid."""
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 11:
        raise ValueError(f"{text[:20]!r} is not an integer")
    cost = int(text)
    if abs(cost) > MAX_MOVE_COST:
        raise ValueError(f"{text} is not between -{MAX_MOVE_COST} and {MAX_MOVE_COST}")
    return cost


_READERS: Final[tuple[tuple[str, Callable[[str], object]], ...]] = (
    (LOAD_ANNOTATION, quantities),
    (MOVE_COST_ANNOTATION, move_cost),
)
"""The parser of each annotation."""
