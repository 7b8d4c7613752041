"""A ring of LeastLoaded with objects on its shards."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from sharder.core.api.ring import AntiAffinity, PlacementSpec, StrategyName
from sharder.core.leases.shard import OBJECTS, Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.placement.demand import NO_GROUP, Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategies.least_loaded import LeastLoaded
from sharder.core.placement.strategy import Choice, Layout
from tests.support.values_placement import cuts_of

WEB = 7
"""A group."""

Held = Mapping[Shard, int]


def spec(
    *,
    required: bool = False,
    min_zones: int = 1,
    pool_capacity: int | None = None,
    per_shard_capacity: int | None = None,
) -> PlacementSpec:
    return PlacementSpec(
        strategy=StrategyName.LEAST_LOADED,
        anti_affinity=AntiAffinity.REQUIRED if required else AntiAffinity.PREFERRED,
        min_zones=min_zones,
        pool_capacity=pool_capacity,
        per_shard_capacity=per_shard_capacity,
    )


def shard(
    name: str, zone: str = "", *, region: str = "r", pool: str = "", room: int | None = None
) -> Shard:
    capacity = {} if room is None else {OBJECTS: Decimal(room)}
    return Shard(name=ShardName(name), region=region, zone=zone, pool=pool, capacity=capacity)


class Ring:
    """Shards with objects on them."""

    def __init__(
        self,
        available: Sequence[Shard],
        placement: PlacementSpec | None = None,
        *,
        lost: Sequence[Shard] = (),
    ) -> None:
        self.layout = Layout(
            spec=placement or spec(), shards=(*available, *lost), available=tuple(available)
        )
        self.placer = Placer(self.layout, LeastLoaded(self.layout))
        self.tally = Tally()
        self._next = 1

    def put(self, where: Shard, many: int, group: int = NO_GROUP) -> None:
        """Count objects on a shard."""
        for _ in range(many):
            self.tally.see(None, self._next, Entry(where.name, (group,) if group else ()))
            self._next += 1

    def create(self, group: int = NO_GROUP) -> Choice:
        """Place a new object and count it where it goes."""
        identity = self._next
        self._next += 1
        choice = self.placer.place(demand(f"key-{identity}", identity, group=group), self.tally)
        if choice.shard is not None:
            entry = Entry(choice.shard, (group,) if group else ())
            self.tally.assume(Reservation(identity, entry))
        return choice

    def left(self, group: int = NO_GROUP) -> list[str]:
        """Return which shards are left for a new object, the fullest first."""
        cuts = cuts_of(self.layout, demand(group=group), self.layout.available, self.tally)
        return [shard.name for shard in cuts[-1].kept]

    def place(self, group: int = NO_GROUP) -> Choice:
        """Place a new object that is not counted."""
        return self.placer.place(demand(group=group), self.tally)


def demand(key: str = "key", identity: int = 0, *, group: int = NO_GROUP) -> Demand:
    return Demand(key, identity, group=group)


def ring(held: Held, placement: PlacementSpec | None = None) -> Ring:
    """Return a ring whose shards hold so many objects of no group."""
    scene = Ring(tuple(held), placement)
    for where, many in held.items():
        scene.put(where, many)
    return scene


def full(**percent: float) -> Held:
    """Return shards with room for 1000 objects that are so full."""
    return {shard(name, room=1000): round(share * 10) for name, share in percent.items()}


SIX = tuple(shard(f"{zone}-{number}", zone) for zone in ("a", "b", "c") for number in (1, 2))
