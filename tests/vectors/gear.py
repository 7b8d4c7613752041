"""The gear placement of OpenShift v2 (tests/compat/gear-placement.json)."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

import msgspec

from sharder.core.names import ShardName
from sharder.core.placement.demand import Demand
from sharder.core.placement.ranking import place_at, weights
from sharder.core.placement.strategies.least_loaded import Chain, LeastLoaded
from tests.support.values_placement import shard
from tests.vectors.gear_file import (
    ActiveCapacity,
    BestFitCase,
    District,
    EvenZones,
    Fact,
    FilterCase,
    GearFile,
    Positions,
    Record,
    Weights,
)
from tests.vectors.gear_scene import DISTRICT, Draw, Scene, scene_of, spec_of
from tests.vectors.result import Result, compared

AGAINST: Final = {
    "zones compared by SUM of node consumption": (
        ("s2", "s3"),
        "zones are compared by the mean here: by the sum, two shards at 10 % lose to one at 15 %",
    ),
    "least-gears zone has no free node -> collapse to one server": (
        ("s1", "s2", "s3"),
        "a zone where no shard may have the object is not compared here, so all of z1 is left",
    ),
}
"""What we expect where upstream is at fault, and why."""

STEPS: Final = {
    "restricted": "antiAffinity",
    "region": "region",
    "zones without app gears": "members in zone",
    "least loaded zone": "load of zone",
    "nodes hosting app gears": "members",
    "least preferred": "members",
}
"""Our step by the name that upstream's has in a trace."""

ENDS: Final[Mapping[str, Draw]] = {
    "first": lambda demand, total: 0,
    "last": lambda demand, total: total - 1,
}
"""The lowest and the highest draws."""

WITHOUT_MEANING: Final = {
    "same, move within the same district (gear_exists_in_district)": (
        "a shard takes nothing above its ceiling, wherever the object comes from"
    ),
    "district_uuid given but required_uid also given with gear_exists_in_district": (
        "objects have no uid to ask for"
    ),
    "reserve_given_uid 6001 on 1..100": "objects have no uid to ask for",
    "add_node without region but with zone, with region but no zone, unknown region, "
    "unknown zone, node already in a district, node holding gears, wrong node profile": (
        "a Lease says where its shard is, and no admission is needed"
    ),
}
"""Cases that we have nothing for, and why."""


def check(data: bytes) -> Iterator[Result]:
    """Yield a result per case."""
    file = msgspec.json.decode(data, type=GearFile)
    yield from map(_check_weights, file.weighted_choice)
    if file.code_comment_example is not None:
        yield _check_positions(file.code_comment_example)
    yield from map(_check_best_fit, file.best_fit_vectors)
    yield from map(_check_filter, file.filter_vectors)
    if file.even_zone_scenario is not None:
        yield from _check_even_zones(file.even_zone_scenario)
    yield from map(_check_discovery, file.discovery_vectors)
    yield from map(_check_district, file.district_vectors)
    yield from map(_check_active_capacity, file.active_capacity_vectors)


def _check_weights(case: Weights) -> Result:
    many = case.servers
    row = weights(many)
    facts: dict[str, tuple[object, object]] = {
        "first weight": (case.weight_skew, row[0]),
        "sum": (case.weights_sum, sum(row)),
        "weights": (case.weight_by_index_most_to_least_consumed, tuple(row)),
    }
    if case.index_for_position is not None:
        places = tuple(place_at(position, many) for position in range(sum(row)))
        facts["positions"] = (case.index_for_position, places)
    return compared(f"weights of {many}", **facts)


def _check_positions(case: Positions) -> Result:
    many = case.servers
    positions: dict[str, tuple[int, ...]] = {str(index): () for index in range(many)}
    for position in range(sum(weights(many))):
        positions[str(place_at(position, many))] += (position,)
    places = {index: (those, positions[index]) for index, those in case.positions.items()}
    return compared(f"positions of {many}", sum=(case.weights_sum, sum(weights(many))), **places)


def _check_best_fit(case: BestFitCase) -> Result:
    scene = scene_of(case.servers, spec_of(pool_capacity=case.district_max_capacity))
    left = [shard.name for shard in scene.narrow()["room of pool"].kept]
    total = sum(weights(len(left)))
    chosen = Counter(scene.chosen_at(position) for position in range(total))
    share = {shard: f"{times}/{total}" for shard, times in chosen.items()}
    return compared(
        f"best fit: {case.name}",
        candidates=(list(case.result.candidates_most_to_least_consumed), left),
        probability=(case.result.probability, share),
    )


def _check_filter(case: FilterCase) -> Result:
    app = case.input
    # Upstream asks for no more zones than the region has.  Here the minimum is what it says, so
    # it is lowered by hand.
    min_zones = min(app.min_zones, len(app.active_zones) or app.min_zones)
    spec = spec_of(restricted=bool(app.restricted), min_zones=min_zones)
    scene = scene_of(case.servers, spec, app)
    steps = scene.narrow()
    kept = {name: {shard.name for shard in step.kept} for name, step in steps.items()}
    left: set[str] = set(kept.get("members", ()))
    if case.name in AGAINST:
        ours, why = AGAINST[case.name]
        return compared(f"filter: {case.name}: not as upstream: {why}", left=(set(ours), left))
    facts: dict[str, tuple[object, object]] = {
        name: (set(those), kept.get(STEPS.get(name, ""), "no such step"))
        for name, those in case.trace
    }
    if not case.expect:
        facts["shard"] = (None, scene.place().shard)
    return compared(f"filter: {case.name}", left=(set(case.expect), left), **facts)


def _check_even_zones(case: EvenZones) -> Iterator[Result]:
    for index, step in enumerate(case.steps):
        scene = Scene(spec_of())
        for name, percent in step.offered.items():
            offered = shard(name, room=100, region="g2", zone=f"z-{name}")
            scene.add(offered, round(percent), step.hosting_before.get(name, 0))
        left = {each.name for each in scene.narrow()["members"].kept}
        yield compared(f"even zones, step {index}", left=(set(step.after_filters), left))
    for end, draw in ENDS.items():
        scene = Scene(spec_of())
        for name in case.final:
            scene.add(shard(name, room=100, region="g2", zone=f"z-{name}"), 0)
        for _ in range(sum(case.final.values())):
            scene.place(draw)
        held = {name: (many, scene.tally.on(ShardName(name))) for name, many in case.final.items()}
        yield compared(f"even zones, the {end} of equals chosen each time", **held)


def _check_discovery(case: Fact) -> Result:
    what = f"discovery: {case.name}"
    if case.name in WITHOUT_MEANING:
        return Result(case=f"{what}: nothing to compare, {WITHOUT_MEANING[case.name]}")
    tell = DISCOVERIES.get(case.name)
    told = "nothing is known of this case" if tell is None else tell()
    return compared(what, found=(case.expect, told))


def _by_active_capacity() -> str:
    """Tell which of nodes that are 99.9, 100 and 120 % full are offered."""

    def told(held: int) -> str:
        scene = Scene(spec_of())
        scene.add(shard("node", room=1000), held)
        return "not offered" if scene.place().shard is None else "offered"

    return " / ".join(map(told, (999, 1000, 1200)))


def _without_district() -> str:
    """Tell what becomes of a node without a district, alone and beside one that has some."""
    scene = Scene(spec_of())
    scene.add(shard("undistricted", room=100), 0)
    alone = "not offered" if scene.place().shard is None else "offered"
    scene.add(shard("districted", room=100, pool="d1"), 50)
    left = [shard.name for shard in scene.narrow()["pooled"].kept]
    beside = "dropped" if left == ["districted"] else "kept"
    return f"{alone}, then {beside} by best fit if any districted node is offered"


def _without_zone() -> str:
    """Tell what becomes of a gear where a zone is required and no node has any."""
    scene = Scene(spec_of(require_zone=True))
    scene.add(shard("s00", room=100), 0)
    return "exception code 140" if scene.place().shard is None else "offered"


DISCOVERIES: Final[Mapping[str, Callable[[], str]]] = {
    "node with active_capacity 99.9 / 100 / 120": _by_active_capacity,
    "undistricted node, DISTRICTS_REQUIRE_FOR_APP_CREATE=false": _without_district,
    "ZONES_REQUIRE_FOR_APP_CREATE=true, only server s00 without a zone": _without_zone,
}
"""What is found of nodes, told in the words of the case."""


def _check_district(case: District) -> Result:
    what = f"district: {case.op}"
    if case.op in WITHOUT_MEANING:
        return Result(case=f"{what}: nothing to compare, {WITHOUT_MEANING[case.op]}")
    free = FREE.get(case.op)
    if free is None or not isinstance(case.expect, Record):
        return Result(case=what, problems=("nothing is known of this case",))
    return compared(what, free=(case.expect.available_capacity, free()))


def _free_when_new() -> int:
    """Count what a pool takes; to place all but the last would take long and show no more."""
    known = DISTRICT - 10
    return known + _free(_pool(DISTRICT, known))


def _free_when_returned_twice() -> int:
    """Count what a pool with one place takes after that was given back twice."""
    scene = _pool(1)
    scene.place()
    for _ in range(2):
        scene.give_back()
    return _free(scene)


def _pool(places: int, held: int = 0) -> Scene:
    """Return two shards with room for more than their pool has."""
    scene = Scene(spec_of(pool_capacity=places))
    scene.add(shard("a", room=2 * places, pool="d1"), held)
    scene.add(shard("b", room=2 * places, pool="d1"), 0)
    return scene


def _free(scene: Scene) -> int:
    """Place gears until there is no room, and count them."""
    return next(index for index in count() if scene.place().shard is None)


FREE: Final[Mapping[str, Callable[[], int]]] = {
    "new district": _free_when_new,
    "unreserve uid 1 twice on an empty district": _free_when_returned_twice,
}
"""How many places a district has, by operation."""


def _check_active_capacity(case: ActiveCapacity) -> Result:
    """Objects have no states: a gear that is idle or stopped is no object."""
    active = case.started + case.new_building_deploying + case.unknown
    scene = Scene(spec_of())
    scene.add(shard("node", room=case.max_active_gears), active)
    chain = Chain(LeastLoaded(scene.layout), Demand("", 0), scene.tally)
    (load,) = chain.loads(scene.layout.available)
    what = f"active capacity of {active} in {case.max_active_gears}"
    return compared(what, percent=(case.active_capacity, chain.percent(load)))
