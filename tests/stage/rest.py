"""Where everything has to be when nothing happens any more (docs/placement.md)."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from math import ceil
from typing import Final

from sharder.core.api.lease import Lease
from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.leases.state import is_held
from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION, ObjectRef
from sharder.core.placement.placer import FOLLOWING
from sharder.kube.typed_stores import LEASES, RINGS
from sharder.sdk.testing.storage import Stored
from tests.stage.actors import RING
from tests.stage.faults import SHARDS
from tests.stage.foreign_controller import DONE
from tests.stage.stage import WEBSITES, Stage
from tests.stage.story import DRAIN, OWNER, PIN

ATTACHED: Final = "attached-"
"""How names of children begin that no controller made, and of which none has to know."""


class Rest:
    """The objects of a stage at one moment, and which of them are not in their place."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.sites = [*stage.storage.of(WEBSITES.id).values()]
        self.on = Counter(stored.meta.label(OWNER) for stored in self.sites)
        self._ring = stage.storage.of(RINGS.id)[ObjectRef("", RING)].as_(ControllerRing)
        leases = stage.storage.of(LEASES.id)
        self._shards = {
            name: leases[ref].as_(Lease)
            for name in SHARDS
            if (ref := ObjectRef("default", name)) in leases and is_held(leases[ref].as_(Lease))
        }
        self._cordoned = self._with(CORDONED_ANNOTATION)
        self._evacuated = self._with(EVACUATE_ANNOTATION)
        self._open = self._shards.keys() - self._cordoned - self._evacuated

    def _with(self, annotation: str) -> set[str]:
        leases = self._shards.items()
        return {name for name, lease in leases if lease.metadata.annotation(annotation)}

    @cached_property
    def _ceiling(self) -> int | None:
        """How many objects a shard can have by the ring."""
        placement = self._ring.spec.placement
        return None if placement.strategy in FOLLOWING else placement.per_shard_capacity

    def _has_room(self, shard: str) -> bool:
        return self._ceiling is None or self.on[shard] < self._ceiling

    @cached_property
    def waiting(self) -> frozenset[str]:
        """The uids of the objects without a shard for which there is no room, or not where they
        are pinned to."""
        without = (each.meta for each in self.sites if each.meta.label(OWNER) not in self._shards)
        return frozenset(meta.uid for meta in without if not self._goals(meta.label(PIN)))

    def _goals(self, pin: str) -> set[str]:
        """Return the shards that can get an object."""
        counts = pin in self._shards and pin not in self._evacuated
        among = {pin} & self._open if counts else self._open
        return {shard for shard in among if self._has_room(shard)}

    def out_of_place(self, *, proxied: bool) -> Iterator[str]:
        """Yield what is not where it belongs; whether the second shard is `proxied`."""
        leases = self.stage.storage.of(LEASES.id)
        yield from (f"shard {name} holds no Lease" for name in SHARDS if name not in self._shards)
        labelled = (ref.name for ref, each in leases.items() if each.meta.label(OWNER))
        yield from (f"Lease {name} is sharded" for name in labelled)
        for stored in self.sites:
            if stored.meta.uid not in self.waiting and (why := self._why_misplaced(stored)):
                yield f"{stored.meta.name} is on {stored.meta.label(OWNER) or 'none'}: {why}"
        yield from self._above()
        owners = {each.meta.uid: each.meta.label(OWNER) for each in self.sites}
        for stored in self.stage.storage.of(self.stage.history.controlled).values():
            parent, owner = stored.meta.controller, stored.meta.label(OWNER)
            if parent is None or parent.uid in self.waiting:
                continue
            if owners.get(parent.uid, owner) != owner:
                yield f"{stored.meta.name} is on {owner}, not with its parent"
            is_made = proxied and not stored.meta.name.startswith(ATTACHED)
            if is_made and owner == SHARDS[1] and stored.meta.annotation(DONE) != owner:
                yield f"{stored.meta.name} is not updated by {owner}"

    def _why_misplaced(self, stored: Stored) -> str:
        """Return why an object has to be elsewhere, empty if it has not."""
        meta = stored.meta
        owner, pin = meta.label(OWNER), meta.label(PIN)
        if owner not in SHARDS or meta.has_label(DRAIN):
            return f"{meta.labels}"
        if pin != owner and pin in self._open and self._has_room(pin):
            return f"pinned to {pin}"
        return "evacuated" if owner in self._evacuated and self._goals(pin) else ""

    def _above(self) -> Iterator[str]:
        """Yield the shards that are above their ceiling, and could give objects away."""
        spec, limit = self._ring.spec, self._ceiling
        for shard in sorted(self._open):
            many = self.on[shard]
            if limit is None and spec.placement.strategy is StrategyName.BOUNDED_LOAD:
                mine = (each.meta for each in self.sites if each.meta.label(OWNER) == shard)
                many -= sum(bool(meta.label(PIN)) for meta in mine)
                if many > ceil(len(self.sites) / len(self._open)):
                    yield f"{shard} has {many} objects"
            elif limit is not None and many > limit:
                yield f"{shard} has {many} objects, of {limit}"
