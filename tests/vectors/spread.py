"""Kubernetes SelectorSpread (tests/compat/selectorspread.json).

Upstream's scores are floats, cut off: where the exact score is an integer they may be one too
low.  There the exact one counts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

import msgspec
from typing_extensions import override

from sharder.core.api.meta import LabelSelector, ObjectMeta, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import RingName, ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand, Reader
from sharder.core.placement.ranking import Ranking
from sharder.core.placement.strategies.spread import Spread
from sharder.core.placement.strategy import Layout
from sharder.core.placement.tally import Reservation, Tally
from tests.support.values_placement import Place, spread_of
from tests.vectors.result import Result, differences

GROUP = 1
"""Of all objects in cases that give numbers only."""


class Owner(msgspec.Struct, frozen=True):
    """The controller of a pod."""

    kind: str
    name: str


class Pod(msgspec.Struct, frozen=True, rename={"spread_constraints": "topologySpreadConstraints"}):
    """A pod; one that is to be placed has no node."""

    labels: dict[str, str]
    ns: str
    node: str = ""
    owner: Owner | None = None
    spread_constraints: bool = False


class Selecting(msgspec.Struct, frozen=True):
    """A Service, which has no kind, or a controller of pods."""

    name: str
    selector: dict[str, str]
    kind: str = ""


class Node(msgspec.Struct, frozen=True):
    """A node, in no zone if that is empty."""

    name: str
    zone: str = ""


class ScoringCase(msgspec.Struct, frozen=True):
    """A pod to place, and the scores of all nodes."""

    name: str
    pod: Pod
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    services: tuple[Selecting, ...]
    controllers: tuple[Selecting, ...]
    expect100: tuple[int, ...]
    matching_per_node: tuple[int, ...]
    expect10: tuple[int, ...] | None = None


class NormalizeCase(msgspec.Struct, frozen=True):
    """Scores of counts; an empty zone is none."""

    name: str
    counts: tuple[int, ...]
    zones: tuple[str, ...]
    score10: tuple[int, ...]
    score100: tuple[int, ...]


class Step(msgspec.Struct, frozen=True):
    """Scores of all shards, and the index of the one that was chosen."""

    scores: tuple[int, ...]
    placed: int


class Fill(msgspec.Struct, frozen=True):
    """Objects of one group, placed one after the other; of equals the first shard is chosen."""

    name: str
    zones: tuple[str, ...]
    steps: tuple[Step, ...]
    final_counts: tuple[int, ...]


class SpreadFile(msgspec.Struct, frozen=True):
    """Vectors of SelectorSpread."""

    scoring_cases: tuple[ScoringCase, ...]
    normalize_vectors: tuple[NormalizeCase, ...] = ()
    sequential_fill: tuple[Fill, ...] = ()


class InOrder(Ranking):
    """Ranks shards by their order, whatever the key."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._names = [shard.name for shard in shards]

    @override
    def score(self, key: str, shard: Shard) -> float:
        """Return a higher score for an earlier shard."""
        return -float(self._names.index(shard.name))

    @override
    def best_of_equals(self, key: str, shards: Sequence[Shard]) -> Shard:
        return max(shards, key=lambda shard: self.score(key, shard))


def check(data: bytes) -> Iterator[Result]:
    """Yield a result per case."""
    file = msgspec.json.decode(data, type=SpreadFile)
    yield from map(_check_scoring, file.scoring_cases)
    yield from map(_check_normalizing, file.normalize_vectors)
    yield from map(_check_fill, file.sequential_fill)


def _check_scoring(case: ScoringCase) -> Result:
    name = f"scoring: {case.name}"
    if case.pod.spread_constraints:
        return Result(case=f"{name}: not for us, objects cannot ask to be left unspread")
    shards = [Shard(name=ShardName(node.name), zone=node.zone) for node in case.nodes]
    reader = Reader(RingName("vectors"), _spec_of(case))
    tally = Tally()
    for identity, pod in enumerate(case.pods, start=1):
        groups = reader.groups_of(_object_of(pod))
        tally.see("pods", identity, Entry(ShardName(pod.node), groups))
    demand = reader.demand(_object_of(case.pod), key="pod", identity=0, current=None)

    members = [tally.members_of(demand.group).get(shard.name, 0) for shard in shards]
    problems = [*_named("members of", shards, case.matching_per_node, members)]
    for full, expected in ((10, case.expect10), (100, case.expect100)):
        if expected is not None:
            problems += _check_scores(shards, members, expected, full)
    choice = Spread(_layout_of(shards)).choose(demand, shards, tally).shard
    exact = _unrounded(members, _places(shards), case.expect100, 100)
    best = {s.name for s, score in zip(shards, exact, strict=True) if score == max(exact)}
    if choice not in best:
        problems.append(f"choice: expected one of {sorted(best)}, got {choice!r}")
    return Result(case=name, problems=tuple(problems))


def _check_normalizing(case: NormalizeCase) -> Result:
    shards = _shards_of(case.zones)
    problems = [
        problem
        for full, expected in ((10, case.score10), (100, case.score100))
        for problem in _check_scores(shards, case.counts, expected, full)
    ]
    return Result(case=f"normalizing: {case.name}", problems=tuple(problems))


def _check_fill(case: Fill) -> Result:
    shards, tally = _shards_of(case.zones), Tally()
    spread = Spread(_layout_of(shards))
    problems: list[str] = []
    for number, step in enumerate(case.steps):
        members = [tally.members_of(GROUP).get(shard.name, 0) for shard in shards]
        told = _check_scores(shards, members, step.scores, 100)
        demand = Demand(f"object-{number}", number, group=GROUP)
        choice = spread.choose(demand, shards, tally).shard
        told += differences({"choice": shards[step.placed].name}, {"choice": choice})
        problems += [f"step {number}: {problem}" for problem in told]
        tally.assume(Reservation(number, Entry(choice, (GROUP,))))
    members = [tally.members_of(GROUP).get(shard.name, 0) for shard in shards]
    problems += _named("members of", shards, case.final_counts, members)
    return Result(case=f"filling: {case.name}", problems=tuple(problems))


def _check_scores(
    shards: Sequence[Shard], members: Sequence[int], expected: Sequence[int], full: int
) -> tuple[str, ...]:
    places = _places(shards)
    exact = _unrounded(members, places, expected, full)
    return _named(f"of {full}", shards, exact, spread_of(members, places, full))


def _unrounded(
    members: Sequence[int], places: Sequence[Place | None], upstream: Sequence[int], full: int
) -> list[int]:
    """Return what upstream's scores are without its rounding."""
    scores = (full * part for part in _parts(members, places))
    return [
        score + 1 if score + 1 == exact else score
        for score, exact in zip(upstream, scores, strict=True)
    ]


def _places(shards: Sequence[Shard]) -> list[Place | None]:
    return [(shard.region, shard.zone) if shard.zone else None for shard in shards]


def _parts(members: Sequence[int], places: Sequence[Place | None]) -> Iterator[Fraction]:
    """Yield the scores as upstream's formula has them, as exact parts of the highest."""
    zones = Counter[Place | None]()
    for place, here in zip(places, members, strict=True):
        zones[place] += here
    most = max(members)
    zone_most = max((zones[place] for place in places if place is not None), default=0)
    for place, here in zip(places, members, strict=True):
        part = Fraction(most - here, most) if most else Fraction(1)
        if place is not None:
            zone = Fraction(zone_most - zones[place], zone_most) if zone_most else Fraction(1)
            part = part / 3 + zone * 2 / 3
        yield part


def _named(
    what: str, shards: Sequence[Shard], expected: Sequence[int], actual: Sequence[int]
) -> tuple[str, ...]:
    """Return the differences of two rows of numbers, one per shard."""
    rows: list[Mapping[str, int]] = [
        {f"{what} {shard.name}": number for shard, number in zip(shards, row, strict=True)}
        for row in (expected, actual)
    ]
    return differences(*rows)


def _spec_of(case: ScoringCase) -> PlacementSpec:
    """Return a grouping by the pod's Services and by the controller that owns it."""
    owner = case.pod.owner
    owning = [c for c in case.controllers if owner == Owner(c.kind, c.name)]
    selectors = tuple(LabelSelector(match_labels=s.selector) for s in (*case.services, *owning))
    return PlacementSpec(strategy=StrategyName.SPREAD, group_by=GroupBy(selectors=selectors))


def _object_of(pod: Pod) -> PartialObject:
    return PartialObject(
        api_version="v1", kind="Pod", metadata=ObjectMeta(namespace=pod.ns, labels=pod.labels)
    )


def _shards_of(zones: Sequence[str]) -> list[Shard]:
    return [Shard(name=ShardName(f"shard-{i}"), zone=zone) for i, zone in enumerate(zones)]


def _layout_of(shards: Sequence[Shard]) -> Layout:
    spec = PlacementSpec(strategy=StrategyName.SPREAD)

    class RankedInOrder(Layout):
        ranking: ClassVar[Ranking] = InOrder(shards)

    return RankedInOrder(spec=spec, shards=tuple(shards), available=tuple(shards))
