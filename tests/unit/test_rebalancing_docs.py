"""What docs/rebalancing.md says is so: its order, and the sentence that it shows."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sharder.core.api.meta import ObjectMeta
from sharder.core.api.ring import RebalanceStrategy
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
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.messages import why
from sharder.core.rebalance.move_order import Rank, rank_of
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.run import run
from tests.support.documents import blocks, code, section, tables

REBALANCING = Path("docs/rebalancing.md")
ORDER = tables(section(REBALANCING, "Which object moves first"))[0]


def test_automatic_finds_no_shard_if_two_are_equally_bad_and_says_what_is_shown() -> None:
    (shown,) = (block.text.strip() for block in blocks("text") if block.document == REBALANCING)
    policy = RebalancePolicy(strategy=RebalanceStrategy.RESOURCE_BALANCE, threshold=None)
    available = [
        LoadedShard(name=ShardName(name), capacity={"cpu": 10.0, "memory": 10.0}) for name in "ab"
    ]
    objects = [
        LoadedObject("a1", ShardName("a"), {"cpu": 9.0, "memory": 5.0, "objects": 1.0}),
        LoadedObject("b1", ShardName("b"), {"cpu": 5.0, "memory": 9.0, "objects": 1.0}),
    ]

    assert why(run(policy, available, objects, budget=50)) == shown


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


def saying(where: str, values: Mapping[str, str]) -> ObjectMeta:
    if where == "label":
        return ObjectMeta(name="x", labels={**values})
    return ObjectMeta(name="x", annotations={**values})
