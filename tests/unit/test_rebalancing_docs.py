"""What docs/rebalancing.md says is so: its numbers, its order, names and defaults."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pytest

from sharder.controllers.movement.rebalancer import MAX_PLANNED, REST_INTERVALS
from sharder.core.api.meta import ObjectMeta
from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.names import (
    DELETION_COST_ANNOTATION,
    EVICTION_COST_ANNOTATION,
    KOORDINATOR_PRIORITY_CLASS_LABEL,
    KOORDINATOR_QOS_LABEL,
    MOVE_COST_ANNOTATION,
    PRIORITY_ANNOTATION,
    QOS_CLASS_ANNOTATION,
    ShardName,
)
from sharder.core.placement.demand import MAX_MOVE_COST
from sharder.core.rebalance.equal_objects import ended
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.measures import TOLERANCE, fragmentation, mean_and_sigma
from sharder.core.rebalance.move_order import Rank, rank_of
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.run import Outcome, rebalancing
from tests.support.documents import blocks, code, section, tables

REBALANCING = Path("docs/rebalancing.md")
EXAMPLE, THRESHOLD = section(REBALANCING, "ResourceBalance").split("### The threshold")
ORDER = tables(section(REBALANCING, "Which object moves first"))[0]
EVENED = tables(section(REBALANCING, "EvenLoad"))[1]
SHOWN = [block.text.strip() for block in blocks("text") if block.document == REBALANCING]


def loads_in_the_example() -> list[LoadedObject]:
    return [
        loaded(name, shard, cpu=float(cpu), memory=float(memory))
        for name, shard, cpu, memory in tables(EXAMPLE)[0]
    ]


def loaded(key: str, shard: str, **load: float) -> LoadedObject:
    return LoadedObject(key, ShardName(shard), {**load, "objects": 1.0})


def shards(*letters: str, **capacity: float) -> list[LoadedShard]:
    return [LoadedShard(name=ShardName(f"shard-{x}"), capacity=capacity) for x in letters]


def run(
    policy: RebalancePolicy, available: list[LoadedShard], objects: Iterable[LoadedObject]
) -> Outcome:
    steps = rebalancing(policy, available, objects, budget=50, admits=lambda _, __: True)
    return ended(steps)


def resource_balance(threshold: float | None) -> Outcome:
    policy = RebalancePolicy(strategy=RebalanceStrategy.RESOURCE_BALANCE, threshold=threshold)
    return run(policy, shards("a", "b", cpu=10.0, memory=10.0), loads_in_the_example())


def numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(", ")]


def test_the_example_has_the_rates_and_fragmentations_that_are_shown() -> None:
    outcome, rows = resource_balance(0.15), tables(EXAMPLE)[1]

    assert {row[0]: float(row[2]) for row in rows} == pytest.approx(dict(outcome.before))
    assert {row[0]: float(row[4]) for row in rows} == pytest.approx(dict(outcome.after))
    for _, before, at_first, after, at_last in rows:
        assert fragmentation(numbers(before)) == pytest.approx(float(at_first))
        assert fragmentation(numbers(after)) == pytest.approx(float(at_last))


def test_the_example_moves_what_is_said_and_says_what_is_shown() -> None:
    balanced, automatic = resource_balance(0.15), resource_balance(None)

    assert [(move.key, move.target) for move in balanced.moves] == [("a1", "shard-b")]
    assert (automatic.moves, SHOWN) == ((), [balanced.why, automatic.why])


def test_the_thresholds_are_those_that_the_code_works_out() -> None:
    for listed, automatic, by_auto, by_number in tables(THRESHOLD)[0]:
        found = numbers(listed)
        threshold = sum(mean_and_sigma(found))
        assert float(automatic) == pytest.approx(threshold, abs=1e-4)
        for said, limit in ((by_auto, threshold), (by_number, 0.15)):
            above = sum(number > limit + TOLERANCE for number in found)
            assert said == (str(above) if above else "none")


def test_even_load_does_with_nine_objects_what_is_said() -> None:
    _, before, moves, after = EVENED[0]
    objects = [loaded(str(number), f"shard-{'abc'[number % 3]}") for number in range(9)]

    outcome = run(RebalancePolicy(strategy=RebalanceStrategy.EVEN_LOAD), shards(*"abcd"), objects)

    assert list(outcome.before.values()) == numbers(before)
    assert (str(len(outcome.moves)), list(outcome.after.values())) == (moves, numbers(after))


def test_even_load_does_by_rates_what_is_said() -> None:
    _, before, moves, after = EVENED[1]
    objects = [loaded(str(number), "shard-a", cpu=1.0, memory=2.0) for number in range(4)]
    objects.append(loaded("b", "shard-b", cpu=2.0, memory=1.0))
    available = shards("a", "b", cpu=10.0, memory=10.0)

    outcome = run(RebalancePolicy(strategy=RebalanceStrategy.EVEN_LOAD), available, objects)

    assert list(outcome.before.values()) == pytest.approx(numbers(before))
    assert list(outcome.after.values()) == pytest.approx(numbers(after))
    assert str(len(outcome.moves)) == moves


def test_the_order_has_every_part_of_the_rank_in_its_place() -> None:
    read_from = [
        (KOORDINATOR_PRIORITY_CLASS_LABEL,),
        (PRIORITY_ANNOTATION,),
        (QOS_CLASS_ANNOTATION,),
        (KOORDINATOR_QOS_LABEL,),
        (DELETION_COST_ANNOTATION,),
        (MOVE_COST_ANNOTATION, EVICTION_COST_ANNOTATION),
    ]

    assert len(Rank._fields) == len(read_from)
    assert [code(row[1])[: len(keys)] for row, keys in zip(ORDER, read_from, strict=False)] == [
        list(keys) for keys in read_from
    ]


@pytest.mark.parametrize(("row", "key"), [(0, "label"), (2, "annotation"), (3, "label")])
def test_the_values_of_the_order_are_ranked_as_they_are_listed(row: int, key: str) -> None:
    name, *values = code(ORDER[row][1])
    places = [rank_of(saying(key, {name: value}))[row] for value in values]

    assert places == sorted(places)
    assert len(set(places)) >= 3
    assert places[-1] < Rank()[row]


def test_the_bands_of_priorities_are_those_in_the_code() -> None:
    bands = re.findall(r"(\d{4})\D(\d{4})", ORDER[0][3])
    places = [
        rank_of(saying("annotation", {PRIORITY_ANNOTATION: priority})).priority_class
        for band in bands
        for priority in band
    ]

    assert places == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_defaults_are_those_in_the_code() -> None:
    defaults = msgspec.to_builtins(RebalanceSpec())
    rows = tables(section(REBALANCING, "How often, and how much"))[0]

    told = {code(row[0])[0]: code(row[1])[0].strip('"') for row in rows}
    assert told == {field: str(defaults[field]).replace("False", "false") for field in told}
    assert len(told) == 4


def test_the_constants_are_those_in_the_code() -> None:
    rows = tables(section(REBALANCING, "How often, and how much"))[1]

    assert [float(value) for _, value in rows] == [
        REST_INTERVALS,
        MAX_PLANNED,
        MAX_MOVE_COST,
        TOLERANCE,
    ]


def saying(where: str, values: Mapping[str, str]) -> ObjectMeta:
    if where == "label":
        return ObjectMeta(name="x", labels={**values})
    return ObjectMeta(name="x", annotations={**values})
