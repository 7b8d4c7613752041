"""The rescheduling of Koordinator (tests/compat/koordinator.json).

Its nodes are our shards, its pods our objects.  What it evicts goes to a shard that is large
enough for everything, and well whatever it gets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import MovementSpec, RebalanceSpec
from sharder.core.names import (
    DELETION_COST_ANNOTATION,
    EVICTION_COST_ANNOTATION,
    KOORDINATOR_PRIORITY_CLASS_LABEL,
    KOORDINATOR_QOS_LABEL,
    PRIORITY_ANNOTATION,
    QOS_CLASS_ANNOTATION,
    ShardName,
)
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, rank_of
from sharder.core.rebalance.measures import fragmentation, mean_and_sigma, measure_of, rates
from sharder.core.rebalance.run import Move, ShardSide
from tests.support.values_rebalance import balance, run
from tests.vectors.koordinator_file import (
    Defaults,
    Mistake,
    PluginCase,
    Pod,
    Proposal,
    Rates,
    Scoring,
    Sorter,
    Story,
    Threshold,
)
from tests.vectors.result import Check, Result, by_member, compared

NODE, SINK, LOPSIDED = ShardName("node"), ShardName("sink"), ShardName("lopsided")
HUGE: Final = 1e12

_DESCRIPTIONS: Final = frozenset({"system", "source"})
"""Members of the file with nothing to check."""

_NO_MEANING: Final = {
    "nil": "a ring that says nothing has the defaults",
    "bad nodeSelector operator": "all shards of a ring take part",
    "bad podSelectors operator": "objects are chosen by the ring",
    "evictableNamespaces include and exclude both set": "objects are chosen by the ring",
}
_REFUSED: Final = frozenset(
    {
        "resources []",
        "resources [cpu,cpu]",
        "imbalanceThreshold -0.1",
        "minImprovementThreshold -0.05",
    }
)
"""What the API server refuses of a ring: tests/integration/test_ring_fields.py has the same."""


def check(data: bytes) -> Iterator[Result]:
    """Yield a result per vector, and one for each member of the file that we do not know."""
    yield from by_member(data, _CHECKS, _DESCRIPTIONS)


def object_like(pod: Pod, kept: bool = False) -> LoadedObject:
    """Return the object that says what the pod says."""
    meta = _with_metadata(pod).metadata
    created = meta.creation_timestamp or ""
    return LoadedObject(pod.name, NODE, _load(pod), rank_of(meta), created, kept)


def candidates(case: Proposal) -> list[str]:
    """Return what may leave the node as it stands, the first to be moved first.

    The one that would be first is kept next time, until none is left.  The target gets better by
    whatever it gets, so that what neither harms nor helps the node may leave it as well.
    """
    kept = {pod.name for pod in case.pods} - set(_removable(case.pods, case.removable))
    found: list[str] = []
    ballast = LoadedObject("", LOPSIDED, {"cpu": 0.9 * HUGE}, kept=True)
    lopsided = LoadedShard(name=LOPSIDED, capacity={"cpu": HUGE, "memory": HUGE / 1e9})
    while True:
        objects = [_kept_if(pod, kept) for pod in case.pods]
        moves = _moves(0.0, 0.0, (_node(case.allocatable), lopsided), [ballast, *objects])
        if not moves:
            return found
        found.append(moves[0].key)
        kept.add(moves[0].key)


def _check_rates(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[Rates]):
        yield compared(f"rates {vector.rates}", std=(vector.std, fragmentation(vector.rates)))


def _check_thresholds(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[Threshold]):
        nodes = {
            ShardName(str(i)): {"cpu": 2 * number, "memory": 0.0}
            for i, number in enumerate(vector.fragmentation)
        }
        mean, sigma = mean_and_sigma(vector.fragmentation)
        threshold, chosen = _selected(nodes, None)
        _, by_number = _selected(nodes, 0.15)
        yield compared(
            f"threshold, {vector.name}",
            mean=(vector.mean, mean),
            sigma=(vector.sigma_population, sigma),
            threshold=(vector.threshold, threshold),
            selected=(vector.selected_strictly_above, [int(name) for name in chosen]),
            by_number=(vector.by_number, [int(name) for name in by_number]),
        )


def _check_story(raw: msgspec.Raw) -> Iterator[Result]:
    story = msgspec.json.decode(raw, type=Story)
    nodes = {ShardName(name): load for name, load in story.nodes.items()}
    sides = {side.name: side for side in _sides(nodes)}
    threshold, chosen = _selected(nodes, None)
    facts: dict[str, tuple[object, object]] = {
        "threshold": (story.threshold_mu_sigma, threshold),
        "selected": (story.nodes_selected_by_proposal, chosen),
        "by_number": (story.by_number, _selected(nodes, 0.15)[1]),
    }
    for name, side in sides.items():
        found = fragmentation(rates(("cpu", "memory"), side.shard, side.load))
        facts[f"fragmentation of {name}"] = (story.fragmentation[name], found)
        facts[f"fits {name}"] = (story.fits[name], side.has_room(story.pod))
    yield compared("story 1", **facts)


def _check_plugin(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[PluginCase]):
        node, removable = _node(vector.allocatable), _removable(vector.pods, vector.evictable)
        kept = {pod.name for pod in vector.pods} - set(removable)
        objects = [_kept_if(pod, kept) for pod in vector.pods]
        moves = _moves(vector.threshold, vector.min_gain, (node, _sink(node)), objects, budget=1)
        facts: dict[str, tuple[object, object]] = {
            "rates": (vector.expect.rates, _rates(node, vector.pods)),
            "before": (vector.expect.before, fragmentation(_rates(node, vector.pods))),
            "evicted": (vector.expect.evicted, [move.key for move in moves]),
        }
        for removal in vector.expect.removals:
            before, after = _removal(node, vector.pods, removal.pod)
            facts[f"after {removal.pod}"] = (removal.after, after)
            facts[f"gain of {removal.pod}"] = (removal.gain, before - after)
        yield compared(f"plugin, {vector.name}", **facts)


def _check_scoring(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[Scoring]):
        node = _node(vector.allocatable)
        facts: dict[str, tuple[object, object]] = {}
        if vector.rates is not None:
            facts["rates"] = (vector.rates, _rates(node, vector.pods))
            facts["std"] = (vector.std, fragmentation(_rates(node, vector.pods)))
        if vector.remove:
            before, after = _removal(node, vector.pods, vector.remove)
            facts["before"] = (vector.before, before)
            facts["after"] = (vector.after, after)
            facts["gain"] = (vector.gain, before - after)
        yield compared(f"scoring, {vector.name}", **facts)


def _check_proposals(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[Proposal]):
        expected = vector.expect_with_recheck_before_each_eviction
        node = _node(vector.allocatable)
        kept = {pod.name for pod in vector.pods} - set(_removable(vector.pods, vector.removable))
        objects = [_kept_if(pod, kept) for pod in vector.pods]
        moves = _moves(vector.threshold, 0.0, (node, _sink(node)), objects)
        before = fragmentation(_rates(node, vector.pods))
        yield compared(
            f"proposal, {vector.name}",
            before=(expected.before, before),
            candidates=(expected.candidates_in_order, candidates(vector)),
            steps=(
                tuple((step.pod, step.before, step.after) for step in expected.steps),
                tuple((move.key, move.before, move.after) for move in moves),
            ),
            after=(expected.after, moves[-1].after if moves else before),
        )
        if expected != vector.expect_seed_rule:
            yield Result(case=f"proposal, {vector.name}, fixed list: no meaning, we look again")


def _check_sorter(raw: msgspec.Raw) -> Iterator[Result]:
    sorter = msgspec.json.decode(raw, type=Sorter)
    for name, expected in sorter.ranks.priority_classes.items():
        found = Pod(name="", kpri="" if name == "none" else name)
        yield _rank(f"priority class {name}", expected, found, "priority_class")
    for name, expected in sorter.ranks.koord_qos.items():
        found = Pod(name="", koord_qos="" if name == "none" else name)
        yield _rank(f"Koordinator QoS {name}", expected, found, "koordinator_qos")
    for name, expected in sorter.ranks.k8s_qos.items():
        yield _rank(f"QoS {name}", expected, Pod(name="", k8s_qos=name), "qos")
    for name, band in sorter.bands.items():
        for priority in band:
            expected = sorter.ranks.priority_classes[name]
            pod = Pod(name="", priority=priority)
            yield _rank(f"priority {priority}", expected, pod, "priority_class")
    yield _check_order(sorter)


def _check_order(sorter: Sorter) -> Result:
    """Return whether the pods come in order; those that differ by real usage only, as sets."""
    objects = {pod.name: object_like(pod) for pod in sorter.pods}
    by_age = sorted(objects.values(), key=lambda obj: obj.created, reverse=True)
    ordered = sorted(by_age, key=lambda obj: obj.rank)
    expected = [objects[name] for name in sorter.expect_order]
    return compared(
        "order of pods (where only real usage differs, which has no meaning here, as sets)",
        order=(_in_sets(expected), _in_sets(ordered)),
    )


def _check_usage(_: msgspec.Raw) -> Iterator[Result]:
    yield Result(case="usage scorer: no meaning, loads are declared and not measured")


def _check_defaults(raw: msgspec.Raw) -> Iterator[Result]:
    defaults, spec = msgspec.json.decode(raw, type=Defaults), RebalanceSpec()
    yield compared(
        "defaults",
        paused=(defaults.paused, MovementSpec().paused),
        dry_run=(defaults.dry_run, spec.dry_run),
        resources=(defaults.resources, list(spec.resources)),
        min_gain=(defaults.min_improvement_threshold, float(spec.min_gain)),
    )
    yield Result(case="default of the threshold: no meaning, ours is the proposal's Auto")
    yield Result(case="defaults of nodeFit and selectors: no meaning, room is always looked at")


def _check_mistakes(raw: msgspec.Raw) -> Iterator[Result]:
    for vector in msgspec.json.decode(raw, type=list[Mistake]):
        if vector.args in _NO_MEANING:
            yield Result(case=f"{vector.args}: no meaning, {_NO_MEANING[vector.args]}")
        elif vector.args in _REFUSED:
            yield Result(case=f"{vector.args}: {vector.error}, as the API server says")
        else:
            yield Result(case=vector.args, problems=("nothing here checks that",))


_CHECKS: Final[Mapping[str, Check]] = {
    "fragmentation_rate": _check_rates,
    "threshold_vectors": _check_thresholds,
    "story1": _check_story,
    "upstream_plugin_vectors": _check_plugin,
    "scoring_vectors": _check_scoring,
    "proposal_vectors": _check_proposals,
    "sorter_upstream": _check_sorter,
    "usage_scorer_upstream": _check_usage,
    "config_defaults": _check_defaults,
    "config_validation": _check_mistakes,
}


def _rank(case: str, expected: int, pod: Pod, field: str) -> Result:
    rank = rank_of(_with_metadata(pod).metadata)
    return compared(case, rank=(expected, rank._asdict()[field]))


def _in_sets(objects: Iterable[LoadedObject]) -> list[list[str]]:
    groups = groupby(objects, key=lambda obj: (obj.rank, obj.created))
    return [sorted(obj.key for obj in group) for _, group in groups]


def _with_metadata(pod: Pod) -> PartialObject:
    labels = {
        KOORDINATOR_PRIORITY_CLASS_LABEL: pod.kpri and f"koord-{pod.kpri}",
        KOORDINATOR_QOS_LABEL: pod.koord_qos,
    }
    annotations = {
        PRIORITY_ANNOTATION: str(pod.priority),
        QOS_CLASS_ANNOTATION: pod.k8s_qos,
        DELETION_COST_ANNOTATION: str(pod.deletion_cost),
        EVICTION_COST_ANNOTATION: str(pod.eviction_cost),
    }
    minutes, seconds = divmod(pod.created_offset_s, 60)
    metadata = ObjectMeta(
        name=pod.name,
        creation_timestamp=f"2025-01-01T00:{minutes:02}:{seconds:02}Z",
        labels={key: value for key, value in labels.items() if value},
        annotations={key: value for key, value in annotations.items() if value},
    )
    return PartialObject(api_version="v1", kind="Pod", metadata=metadata)


def _load(pod: Pod) -> dict[str, float]:
    return {**pod.req, "objects": 1.0}


def _kept_if(pod: Pod, kept: set[str]) -> LoadedObject:
    return object_like(pod, kept=pod.name in kept)


def _removable(pods: Iterable[Pod], named: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(pod.name for pod in pods) if named is None else named


def _node(allocatable: Mapping[str, float]) -> LoadedShard:
    return LoadedShard(name=NODE, capacity={**allocatable})


def _sink(node: LoadedShard) -> LoadedShard:
    return LoadedShard(name=SINK, capacity=dict.fromkeys(node.capacity, HUGE))


def _rates(node: LoadedShard, pods: Iterable[Pod]) -> tuple[float, ...]:
    load = {name: sum(pod.req.get(name, 0.0) for pod in pods) for name in node.capacity}
    return tuple(rates(node.capacity, node, load))


def _removal(node: LoadedShard, pods: Sequence[Pod], name: str) -> tuple[float, float]:
    rest = [pod for pod in pods if pod.name != name]
    return fragmentation(_rates(node, pods)), fragmentation(_rates(node, rest))


def _moves(
    threshold: float,
    min_gain: float,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    budget: int = 100,
) -> tuple[Move, ...]:
    return tuple(run(balance(threshold, min_gain), shards, objects, budget=budget).moves)


def _selected(
    nodes: Mapping[ShardName, Mapping[str, float]], threshold: float | None
) -> tuple[float, list[str]]:
    """Return the threshold, and the nodes above it by name; each load is a rate."""
    sides = list(_sides(nodes))
    measure = measure_of(
        balance(threshold), [s.shard for s in sides], {s.name: s.load for s in sides}
    )
    numbers = {side.name: measure.of(side.shard, side.load) for side in sides}
    chosen = [name for name, number in numbers.items() if measure.is_source(number)]
    return sum(mean_and_sigma([*numbers.values()])), sorted(chosen)


def _sides(nodes: Mapping[ShardName, Mapping[str, float]]) -> Iterator[ShardSide]:
    for name, load in nodes.items():
        shard = LoadedShard(name=name, capacity=dict.fromkeys(load, 1.0))
        yield ShardSide(shard, [LoadedObject(name, name, {**load})])
