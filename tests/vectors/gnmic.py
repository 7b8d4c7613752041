"""The bounded loads of gNMIc's operator (tests/compat/gnmic.json).

Its targets are our objects, its pods our shards.  Our own code places everything: only the
ranking is gNMIc's, passed in where ours would be.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, TypeAlias

import msgspec

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.placement.counts import NO_COUNTS, Entry
from sharder.core.placement.demand import Demand, identity_of
from sharder.core.placement.placer import Placer
from sharder.core.placement.ranking import Ranking
from sharder.core.placement.strategy import Layout
from sharder.core.placement.tally import Tally
from tests.support.simulated import Placed, distribute
from tests.vectors.fnv import Fnv, fnv1a, number_of, pod
from tests.vectors.result import Check, Result, by_member, compared

Pods: TypeAlias = Mapping[str, int | None]
"""The pod of each target, None if there is none."""

_RANGE: Final = re.compile(r"(.*%\d*d) for (\d+)\.\.(\d+)(?:,.*)?")

_DESCRIPTIONS: Final = frozenset({"system", "source", "hash"})
"""Members of the file with nothing to check."""


class _Check(msgspec.Struct, frozen=True):
    input: str
    hash_hex: str


class _Score(msgspec.Struct, frozen=True):
    target: str
    pod: int
    hash_dec: str


class _Order(msgspec.Struct, frozen=True):
    target: str
    pods: int
    order_best_first: list[int]


class _Capacity(msgspec.Struct, frozen=True, rename={"given": "podCapacity"}):
    targets: int
    pods: int
    capacity: int
    given: int


class _Assignment(msgspec.Struct, frozen=True, rename={"given": "podCapacity"}):
    name: str
    targets: list[str]
    pods: int
    given: int
    current: dict[int, list[str]] | None
    expect: dict[int, list[str]]
    loads: list[int]
    unassigned: list[str]
    moved: list[str] | None = None


class _Loads(msgspec.Struct, frozen=True):
    targets: str
    pods: int
    loads: list[int]
    capacity: int | None = None
    max_minus_min: int | None = None


class _Step(msgspec.Struct, frozen=True):
    pods: int
    moved: int
    loads: list[int]


class _Churn(msgspec.Struct, frozen=True):
    targets: str
    mode: str
    steps: list[_Step]


class _FirstChoices(
    msgspec.Struct,
    frozen=True,
    rename={"shares": "upstream key:pod", "orders": "distinct_preference_orders_upstream"},
):
    targets: str
    shares: dict[int, list[float]]
    orders: dict[int, int]


def check(data: bytes) -> Iterator[Result]:
    """Yield a result per vector, and one for each member of the file that we do not know."""
    yield from by_member(data, _CHECKS, _DESCRIPTIONS)


def distributed(
    targets: Iterable[str], pods: int, given: int = 0, before: Pods | None = None
) -> dict[str, int | None]:
    """Return where we place targets that are on the pods `before`; some can be gone.

    `given` is the capacity of each pod, 0 the automatic one.
    """
    objects = []
    for target in targets:
        number = None if before is None else before.get(target)
        current = None if number is None else pod(number)
        objects.append(Placed(Demand(target, identity_of(target), current)))
    choices = distribute(objects, _placer(pods, given)).choices
    shards = {placed.demand.key: choices[placed.demand.identity].shard for placed in objects}
    return {
        target: None if shard is None else number_of(shard) for target, shard in shards.items()
    }


def moved(before: Pods, after: Pods) -> list[str]:
    """Return the targets that were on one pod and are on another now."""
    places = ((target, before.get(target), after[target]) for target in after)
    return sorted(target for target, old, new in places if None not in {old, new} and old != new)


def targets_of(text: str) -> list[str]:
    """Return the names that a text such as `router%d for 0..99` describes.

    Raises:
        msgspec.DecodeError: it is none.
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise msgspec.DecodeError(f"{text!r} is not of the form NAME%d for FIRST..LAST")
    return [found[1] % number for number in range(int(found[2]), int(found[3]) + 1)]


def _check_hash(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Check]):
        what = f"FNV-1a of {vector.input!r}"
        yield compared(what, hash=(int(vector.hash_hex, 16), fnv1a(vector.input)))


def _check_scores(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Score]):
        what = f"score of {vector.target} for pod {vector.pod}"
        score = Fnv().score(vector.target, Shard(name=pod(vector.pod)))
        yield compared(what, score=(int(vector.hash_dec), score))


def _check_orders(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Order]):
        what = f"order of {vector.pods} pods for {vector.target}"
        order = list(_order(vector.target, _placer(vector.pods)))
        yield compared(what, order=(vector.order_best_first, order))


def _check_capacities(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Capacity]):
        what = f"{vector.targets} targets, {vector.pods} pods, capacity {vector.given} given"
        capacity = _capacity(vector.targets, _placer(vector.pods, vector.given))
        yield compared(what, capacity=(vector.capacity, capacity))


def _check_assignments(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Assignment]):
        held = [target for targets in (vector.current or {}).values() for target in targets]
        if len(held) != len(set(held)):
            yield Result(case=f"{vector.name}: no meaning, an object is on one shard at most")
        elif not set(held) <= set(vector.targets):
            yield Result(case=f"{vector.name}: no meaning, what is not in scope is not counted")
        else:
            yield _check_assignment(vector)


def _check_assignment(vector: _Assignment) -> Result:
    before = _by_target(vector.current or {})
    after = distributed(vector.targets, vector.pods, vector.given, before)
    expected = {**dict.fromkeys(vector.targets), **_by_target(vector.expect)}
    facts: dict[str, tuple[object, object]] = {
        **{target: (number, after[target]) for target, number in expected.items()},
        "loads": (vector.loads, _loads(after, vector.pods)),
        "unassigned": (vector.unassigned, sorted(t for t in after if after[t] is None)),
    }
    if vector.moved is not None:
        facts["moved"] = (sorted(vector.moved), moved(before, after))
    return compared(vector.name, **facts)


def _check_loads(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Loads]):
        targets = targets_of(vector.targets)
        loads = _loads(distributed(targets, vector.pods), vector.pods)
        facts: dict[str, tuple[object, object]] = {"loads": (vector.loads, loads)}
        if vector.capacity is not None:
            facts["capacity"] = (vector.capacity, _capacity(len(targets), _placer(vector.pods)))
        if vector.max_minus_min is not None:
            facts["max_minus_min"] = (vector.max_minus_min, max(loads) - min(loads))
        yield compared(f"{vector.targets} on {vector.pods} pods", **facts)


def _check_churn(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[_Churn]):
        targets = targets_of(vector.targets)
        before = distributed(targets, 1)
        for step in vector.steps:
            known = None if vector.mode.startswith("fresh") else before
            after = distributed(targets, step.pods, before=known)
            yield compared(
                f"{vector.targets}, {vector.mode}, to {step.pods} pods",
                moved=(step.moved, len(moved(before, after))),
                loads=(step.loads, _loads(after, step.pods)),
            )
            before = after


def _check_first_choices(raw: msgspec.Raw) -> Iterator[Result]:
    vector = msgspec.json.decode(raw, type=_FirstChoices)
    targets = targets_of(vector.targets)
    for pods, expected in vector.shares.items():
        placer = _placer(pods, strategy=StrategyName.RENDEZVOUS)
        first = Counter(placer.place(Demand(target, 0), NO_COUNTS).shard for target in targets)
        shares = [round(first[pod(number)] / len(targets), 4) for number in range(pods)]
        yield compared(f"first choices among {pods} pods", shares=(expected, shares))
    for pods, many in vector.orders.items():
        placer = _placer(pods)
        orders = {_order(target, placer) for target in targets}
        yield compared(f"different orders of {pods} pods", orders=(many, len(orders)))
    yield Result(case="first choices by other hashes: no meaning, they are not the operator's")


_CHECKS: Final[Mapping[str, Check]] = {
    "fnv1a64_check": _check_hash,
    "hash_vectors": _check_scores,
    "rank_vectors": _check_orders,
    "capacity_vectors": _check_capacities,
    "assign_vectors": _check_assignments,
    "load_vectors": _check_loads,
    "churn_vectors": _check_churn,
    "first_choice_share_unbounded": _check_first_choices,
}


class _RankedByFnv(Layout):
    """A layout with upstream's hash."""

    ranking: ClassVar[Ranking] = Fnv()


def _placer(
    pods: int, given: int = 0, strategy: StrategyName = StrategyName.BOUNDED_LOAD
) -> Placer:
    shards = tuple(Shard(name=pod(number)) for number in range(pods))
    spec = PlacementSpec(strategy=strategy, per_shard_capacity=given or None)
    return Placer(_RankedByFnv(spec=spec, shards=shards, available=shards))


def _order(target: str, placer: Placer) -> tuple[int, ...]:
    ranking, pods = placer.layout.ranking, placer.layout.available
    best_first = sorted(pods, key=lambda found: ranking.score(target, found), reverse=True)
    return tuple(number_of(found.name) for found in best_first)


def _capacity(targets: int, placer: Placer) -> int | None:
    tally = Tally()
    for identity in range(targets):
        tally.see(None, identity, Entry(None))
    return placer.ceilings(tally).of(placer.layout.available[0])


def _by_target(targets: Mapping[int, list[str]]) -> dict[str, int | None]:
    return {target: number for number, names in targets.items() for target in names}


def _loads(after: Pods, pods: int) -> list[int]:
    loads = Counter(after.values())
    return [loads[number] for number in range(pods)]
