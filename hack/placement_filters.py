"""The list of filters in docs/placement.md: the reasons for which a shard is out, in order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import (
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    RingName,
    ShardName,
    pin_label,
)
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import Reader
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout

RING: Final = RingName("my-ring")
SPREAD: Final = PlacementSpec(strategy=StrategyName.SPREAD)
A, B = (Shard(name=ShardName(name)) for name in ("shard-a", "shard-b"))


def placer_of(spec: PlacementSpec, members: tuple[Shard, ...]) -> Placer:
    """Return the sharder's placer for these shards, all of them available."""
    return Placer(Layout(spec=spec, shards=members, available=members))


def table(*heading: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; each row has as many cells as `heading`."""
    lines = [f"| {' | '.join(map(str, line))} |\n" for line in (heading, *rows)]
    return "".join((lines[0], "|---" * len(heading), "|\n", *lines[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A filter, with a case in which it rejects a shard."""

    only: str = ""
    """When the filter applies, if not always."""
    shard: Shard = A
    labels: Mapping[str, str] | None = None
    """The labels of the object to place."""
    spec: PlacementSpec = SPREAD
    held: int = 0
    """The number of objects that `shard` owns already."""

    def objection(self) -> str:
        """Return the placer's reason to reject `shard`; the ring has a second shard, B."""
        placer = placer_of(self.spec, (self.shard, B))
        tally = Tally()
        for identity in range(self.held):
            tally.see(None, identity, Entry(self.shard.name))
        meta = ObjectMeta(name="new", labels=dict(self.labels or {}))
        demand = Reader(RING, self.spec).demand(
            PartialObject(metadata=meta), key="new", identity=self.held, current=None
        )
        return placer.explain(demand, tally).rejected[self.shard.name]


QUESTIONS: Final = (
    Question(shard=replace(A, evacuating=True)),
    Question(shard=replace(A, cordoned=True)),
    Question(labels={pin_label(RING): B.name}),
    Question(labels={POOL_LABEL: "blue"}),
    Question(labels={WANTED_REGION_LABEL: "north"}),
    Question(labels={WANTED_ZONE_LABEL: "north-1"}),
    Question(only="with `requirePool`", spec=structs.replace(SPREAD, require_pool=True)),
    Question(only="with `requireZone`", spec=structs.replace(SPREAD, require_zone=True)),
    Question(spec=structs.replace(SPREAD, per_shard_capacity=100), held=100),
    Question(
        shard=replace(A, pool="blue"), spec=structs.replace(SPREAD, pool_capacity=500), held=500
    ),
    Question(shard=replace(A, ready=False)),
)


def filters() -> str:
    """Return the list: the reason of each filter, in their order."""
    standing = "its [standing](protocol.md#when-an-object-may-be-taken-from-a-shard)"
    reasons = (f"`{each.objection()}`{each.only and f', {each.only}'}" for each in QUESTIONS)
    lines = enumerate((standing, *reasons), 1)
    return "".join(f"{number}. {line}\n" for number, line in lines)
