"""The nodes and gears of a vector as shards and objects.

Gears are objects, nodes are shards, districts are pools.  A node's consumption becomes as many
objects on a shard, and the free places of a district become those of a pool: what it has on nodes
that are not offered is on a shard that is not available.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, TypeAlias

from typing_extensions import override

from sharder.core.api.ring import AntiAffinity, PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategies.least_loaded import Cut, LeastLoaded
from sharder.core.placement.strategy import Choice, Layout
from sharder.core.placement.tally import Reservation, Tally
from tests.support.values_placement import cuts_of, shard
from tests.vectors.gear_file import Application, Server

Draw: TypeAlias = Callable[[Demand, int], int]
"""(object, total) → a number from 0 to `total` - 1; `total` is at least 1."""

GROUP: Final = 1
"""Of all gears of the application."""

DISTRICT: Final = 6000
"""Gears that a district has room for, unless a case says something else."""


def spec_of(
    *,
    pool_capacity: int | None = DISTRICT,
    restricted: bool = False,
    min_zones: int = 1,
    require_zone: bool = False,
) -> PlacementSpec:
    """Return how gears are placed; restricted servers are those of the group."""
    return PlacementSpec(
        strategy=StrategyName.LEAST_LOADED,
        pool_capacity=pool_capacity,
        anti_affinity=AntiAffinity.REQUIRED if restricted else AntiAffinity.PREFERRED,
        min_zones=min_zones,
        require_zone=require_zone,
    )


class Scene:
    """Shards, and objects on them."""

    def __init__(self, spec: PlacementSpec) -> None:
        self._spec = spec
        self._available: dict[ShardName, Shard] = {}
        self._others: dict[ShardName, Shard] = {}
        self._identities = count(1)
        self._last = 0
        self.tally = Tally()

    @property
    def layout(self) -> Layout:
        """The shards as a strategy is built from them."""
        shards = self._available | self._others
        return Layout(
            spec=self._spec,
            shards=tuple(shards[name] for name in sorted(shards)),
            available=tuple(shards[name] for name in sorted(self._available)),
        )

    def add(self, shard: Shard, held: int, members: int = 0, *, offered: bool = True) -> None:
        """Put a shard there that holds objects; `members` of them are in the group."""
        (self._available if offered else self._others)[shard.name] = shard
        for index in range(held):
            entry = Entry(shard.name, (GROUP,) if index < members else ())
            self.tally.see(None, next(self._identities), entry)

    def place(self, draw: Draw | None = None) -> Choice:
        """Place a new gear by this draw, or by its hash, and count it."""
        layout, identity = self.layout, next(self._identities)
        self._last = identity
        demand = Demand(f"/Gear/ns/{identity}", identity, group=GROUP)
        choice = Placer(layout, _strategy_of(layout, draw)).place(demand, self.tally)
        if choice.shard is not None:
            self.tally.assume(Reservation(identity, Entry(choice.shard, (GROUP,))))
        return choice

    def give_back(self) -> None:
        """Give back what the last gear has reserved, as often as one likes."""
        self.tally.forget(self._last)

    def remarks(self) -> Mapping[ShardName, str]:
        """Return what is said of each shard for a new gear."""
        layout = self.layout
        placer = Placer(layout, LeastLoaded(layout))
        return placer.explain(Demand("", 0, group=GROUP), self.tally).remarks

    def chosen_at(self, position: int) -> ShardName | None:
        """Return where a new gear goes if `position` is drawn; nothing is counted."""
        layout = self.layout
        strategy = _strategy_of(layout, lambda demand, total: position)
        return Placer(layout, strategy).place(Demand("", 0, group=GROUP), self.tally).shard

    def narrow(self) -> dict[str, Cut]:
        """Return the cuts for a new gear, by name."""
        layout = self.layout
        demand = Demand("", 0, group=GROUP)
        cuts = cuts_of(layout, demand, layout.available, self.tally)
        return {cut.name: cut for cut in cuts}


class _Drawn(LeastLoaded):
    """Places by a given draw."""

    def __init__(self, layout: Layout, draw: Draw) -> None:
        super().__init__(layout)
        self._given = draw

    @override
    def draw(self, demand: Demand, total: int) -> int:
        return self._given(demand, total)


def _strategy_of(layout: Layout, draw: Draw | None) -> LeastLoaded:
    return LeastLoaded(layout) if draw is None else _Drawn(layout, draw)


def scene_of(
    servers: Sequence[Server], spec: PlacementSpec, app: Application | None = None
) -> Scene:
    """Return the servers with what they hold, and where else the application has gears."""
    scene = Scene(spec)
    app = app or Application()
    hosting = dict.fromkeys(app.restricted, 1) | app.hosting
    capacity = 100 if all(server.consumed.is_integer() for server in servers) else 1000
    for server in servers:
        offered = shard(
            server.name,
            room=capacity,
            zone=server.zone or "",
            pool=server.district or "",
            region=server.region or "",
        )
        held = round(server.consumed * capacity / 100)
        scene.add(offered, held, hosting.pop(server.name, 0))
    for away, members in _elsewhere(app, hosting):
        scene.add(away, members, members, offered=False)
    _fill_districts(scene, servers)
    return scene


def _elsewhere(app: Application, hosting: Mapping[str, int]) -> list[tuple[Shard, int]]:
    """Return the servers with gears of the application that are not offered."""
    if app.app_server is None:
        return []
    region = app.app_server.region
    if not app.hosting:
        # It has a region, and gears in none of the zones.
        return [(shard("first-gear", room=DISTRICT, region=region), 1)]
    return [
        (shard(name, room=DISTRICT, region=region, zone=app.zone_of[name]), members)
        for name, members in hosting.items()
    ]


def _fill_districts(scene: Scene, servers: Sequence[Server]) -> None:
    """Take from each pool what is not free in its district.

    Of a district that is said to be free its own servers take something nevertheless.
    """
    layout = scene.layout
    limit = layout.spec.pool_capacity or 0
    free = {s.district: s.district_available for s in servers if s.district_available is not None}
    for district, places in free.items():
        name = district or ""
        held = sum(scene.tally.on(shard.name) for shard in layout.pools[name])
        rest = shard(f"rest-of-{name}", room=limit, pool=name)
        scene.add(rest, max(0, limit - places - held), offered=False)
