"""Facts about `sharder.core.rebalance.loads` and `move_order`: what labels and annotations say."""

import pytest

from sharder.core import names
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import KOORDINATOR_PRIORITY_CLASS_LABEL, KOORDINATOR_QOS_LABEL
from sharder.core.rebalance.loads import (
    ONE_OBJECT,
    LoadedObject,
    load_of,
    object_of,
)
from sharder.core.rebalance.move_order import NO_RANK, rank_of
from tests.support.values_rebalance import A

LABELS = {KOORDINATOR_PRIORITY_CLASS_LABEL, KOORDINATOR_QOS_LABEL}


def meta(**said: str) -> ObjectMeta:
    """Metadata with labels and annotations by the names of their keys."""
    keys = {getattr(names, name): value for name, value in said.items()}
    return ObjectMeta(
        labels={key: value for key, value in keys.items() if key in LABELS},
        annotations={key: value for key, value in keys.items() if key not in LABELS},
    )


def test_a_load_is_read_as_quantities() -> None:
    load = load_of(meta(LOAD_ANNOTATION="cpu=200m,memory=1Ki"))

    assert load == {"cpu": 0.2, "memory": 1024.0, "objects": 1.0}


@pytest.mark.parametrize("text", ["much", "cpu=-1", "cpu=1,cpu=2", "x" * 5000])
def test_a_load_that_cannot_be_understood_counts_for_nothing(text: str) -> None:
    assert load_of(meta(LOAD_ANNOTATION=text)) == ONE_OBJECT


def test_an_object_that_says_nothing_has_no_rank() -> None:
    assert rank_of(ObjectMeta()) == NO_RANK
    assert rank_of(ObjectMeta(labels={"app": "web"})) == NO_RANK


def test_the_rank_says_all_that_metadata_says() -> None:
    rank = rank_of(
        meta(
            KOORDINATOR_PRIORITY_CLASS_LABEL="koord-mid",
            PRIORITY_ANNOTATION="-7",
            QOS_CLASS_ANNOTATION="Burstable",
            KOORDINATOR_QOS_LABEL="LSR",
            DELETION_COST_ANNOTATION="-3",
            MOVE_COST_ANNOTATION="12",
        )
    )

    assert rank == (3, -7, 2, 3, -3, 12)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ({"KOORDINATOR_PRIORITY_CLASS_LABEL": "koord-free"}, 1),
        ({"KOORDINATOR_PRIORITY_CLASS_LABEL": "koord-free", "PRIORITY_ANNOTATION": "9500"}, 1),
        ({"KOORDINATOR_PRIORITY_CLASS_LABEL": "other", "PRIORITY_ANNOTATION": "9500"}, 5),
        ({"PRIORITY_ANNOTATION": "9500"}, 4),
        ({"PRIORITY_ANNOTATION": "10000"}, 5),
        ({"PRIORITY_ANNOTATION": "3000", "KOORDINATOR_QOS_LABEL": "LS"}, 1),
        ({"KOORDINATOR_QOS_LABEL": "BE", "QOS_CLASS_ANNOTATION": "Guaranteed"}, 2),
        ({"KOORDINATOR_QOS_LABEL": "LSE"}, 4),
        ({"QOS_CLASS_ANNOTATION": "BestEffort"}, 2),
        ({"QOS_CLASS_ANNOTATION": "Guaranteed"}, 4),
        ({"QOS_CLASS_ANNOTATION": "best effort"}, 5),
    ],
)
def test_the_priority_class_is_said_or_follows_from_what_is_said(
    said: dict[str, str], number: int
) -> None:
    assert rank_of(meta(**said)).priority_class == number


@pytest.mark.parametrize(
    ("ours", "theirs", "cost"),
    [
        ("7", "9", 7),
        ("0", "9", 0),
        ("", "9", 9),
        ("much", "9", 9),
        ("-2147483648", "9", 9),
        ("-2147483647", "9", -2147483647),
        ("08", "9", 8),
    ],
)
def test_our_move_cost_comes_before_koordinators(ours: str, theirs: str, cost: int) -> None:
    said = meta(MOVE_COST_ANNOTATION=ours, EVICTION_COST_ANNOTATION=theirs)

    assert rank_of(said).move_cost == cost


@pytest.mark.parametrize("text", ["high", "1e3", "99999999999", "4294967296"])
def test_a_priority_that_is_none_is_zero(text: str) -> None:
    assert rank_of(meta(PRIORITY_ANNOTATION=text)).priority == 0


def test_an_object_is_read_with_its_age_and_its_load() -> None:
    obj = PartialObject(metadata=ObjectMeta(creation_timestamp="2026-01-01T00:00:00Z"))

    assert object_of(obj, key="ns/o", shard=A) == LoadedObject(
        "ns/o", A, ONE_OBJECT, NO_RANK, "2026-01-01T00:00:00Z"
    )
    assert object_of(PartialObject(), key="ns/o", shard=A, load={"cpu": 2.0}).load == {"cpu": 2.0}


def test_the_highest_cost_keeps_an_object_where_it_is() -> None:
    obj = PartialObject(metadata=meta(EVICTION_COST_ANNOTATION="2147483647"))

    assert "must never move" in object_of(obj, key="ns/o", shard=A).kept
    assert object_of(obj, key="ns/o", shard=A, kept="is pinned").kept == "is pinned"
