"""Where the leader's own steps bring objects that are given by what they ask for."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import structs

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import GroupBy
from sharder.core.movement.step import Keep
from sharder.core.names import (
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ShardName,
    pin_label,
)
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Reservation, Tally
from sharder.core.plan.state import State
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.values import DEMO, WIDGETS, available, obj, ring


class Placed(NamedTuple):
    """An object as it is now; `demand.current` is its shard, available or not."""

    demand: Demand
    draining: bool = False
    deleting: bool = False

    def on(self, shard: ShardName | None) -> Reservation:
        """Return how the object counts once it is on `shard`."""
        pinned = shard is not None and self.demand.pin == shard
        entry = Entry(shard, self.demand.groups, deleting=self.deleting, pinned=pinned)
        return Reservation(self.demand.identity, entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Where every object is in the end."""

    choices: dict[int, Choice]
    """By identity; the shard is an available one."""
    displaced: frozenset[int]
    """The objects that left a shard because it was above its ceiling."""


def distribute(objects: Iterable[Placed], placer: Placer) -> Distribution:
    """Return where objects are once the leader has nothing left to do."""
    at = _snapshot_of(placer)
    given = list(objects)
    state = State(at, ((Role.MAIN, _object_of(each)) for each in given))
    state.settle()
    identities = {placed.demand.key: placed.demand.identity for placed in given}
    choices, displaced = dict[int, Choice](), set[int]()
    for each in state.objects.values():
        owner, identity = each.to, identities[each.now.metadata.name]
        reason = each.last.why if isinstance(each.last, Keep) else ""
        choices[identity] = Choice(owner if owner in at.members.available else None, reason)
        displaced |= {identity} if each.is_displaced else set()
    return Distribution(choices=choices, displaced=frozenset(displaced))


def _snapshot_of(placer: Placer) -> RingSnapshot:
    demo, layout = ring(), placer.layout
    spec = structs.replace(
        demo.spec,
        placement=structs.replace(layout.spec, group_by=GroupBy(labels=("app",))),
    )
    built = build(
        structs.replace(demo, spec=spec),
        members=available(*(shard.name for shard in layout.available)),
        namespaces=frozenset({"default"}),
        custom=layout.custom,
    )
    return replace(built, placer=placer, tally=Tally() if placer.sticks else None)


def _object_of(placed: Placed) -> PartialObject:
    demand = placed.demand
    labels = {
        pin_label(DEMO): demand.pin or "",
        WANTED_REGION_LABEL: demand.region,
        WANTED_ZONE_LABEL: demand.zone,
        POOL_LABEL: demand.pool,
        "app": str(demand.group or ""),
    }
    made = obj(
        WIDGETS,
        demand.key,
        owner=demand.current,
        drain="true" if placed.draining else None,
        labels={key: value for key, value in labels.items() if value},
    )
    ends = "2026-01-01T00:00:00Z" if placed.deleting else None
    metadata = structs.replace(made.metadata, deletion_timestamp=ends)
    return structs.replace(made, metadata=metadata)
