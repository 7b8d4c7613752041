"""Facts about `sharder.core.rebalance.loads`: what labels and annotations say."""

import pytest

from sharder.core import names
from sharder.core.api.meta import ObjectMeta
from sharder.core.names import KOORDINATOR_PRIORITY_CLASS_LABEL, KOORDINATOR_QOS_LABEL
from sharder.core.rebalance.loads import NO_RANK, LoadedObject, limited, load_of, rank_of
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
    assert load_of("cpu=200m,memory=1Ki,objects=9") == {"cpu": 0.2, "memory": 1024.0}


@pytest.mark.parametrize("text", ["", "much", "cpu=-1", "cpu=1,cpu=2", "x" * 5000])
def test_a_load_that_cannot_be_understood_counts_for_nothing(text: str) -> None:
    assert load_of(text) == {}


def loaded(namespace: str, number: int, cpu: float) -> list[LoadedObject]:
    return [LoadedObject(f"/Secret/{namespace}/{n}", A, {"cpu": cpu}) for n in range(number)]


def total(objects: list[LoadedObject], namespace: str = "") -> float:
    return sum(obj.load["cpu"] for obj in objects if namespace in obj.key)


def test_a_namespace_counts_at_most_ten_times_its_share_of_the_objects() -> None:
    objects = [*loaded("theirs", 1, 1e12), *loaded("ours", 39, 1.0)]

    counted = limited(objects)

    assert total(counted, "theirs") == pytest.approx(total(counted) * 10 / 40)
    assert total(counted, "ours") == 39.0


@pytest.mark.parametrize(
    "objects",
    [
        [*loaded("theirs", 1, 9.0), *loaded("ours", 39, 1.0)],
        [*loaded("theirs", 10, 100.0), *loaded("ours", 90, 1.0)],
        [*loaded("theirs", 1, 100.0), *loaded("ours", 99, 0.0)],
        loaded("theirs", 3, 100.0),
    ],
    ids=["less", "a tenth of the objects", "only one declares a load", "alone"],
)
def test_other_loads_count_as_they_are_declared(objects: list[LoadedObject]) -> None:
    assert limited(objects) == objects


@pytest.mark.parametrize(
    ("ours", "theirs", "cost"),
    [
        ("7", "9", 7),
        ("0", "9", 0),
        ("", "9", 9),
        ("much", "9", 9),
        ("-2147483648", "9", 9),
        ("-2147483647", "9", -2147483647),
        ("00000000008", "9", 8),
    ],
)
def test_our_move_cost_comes_before_koordinators(ours: str, theirs: str, cost: int) -> None:
    said = meta(MOVE_COST_ANNOTATION=ours, EVICTION_COST_ANNOTATION=theirs)

    assert rank_of(said).move_cost == cost


@pytest.mark.parametrize(
    ("said", "like"),
    [
        ({"KOORDINATOR_QOS_LABEL": "BE"}, "koord-batch"),
        ({"KOORDINATOR_QOS_LABEL": "LS"}, "koord-prod"),
        ({"QOS_CLASS_ANNOTATION": "BestEffort"}, "koord-batch"),
        ({"QOS_CLASS_ANNOTATION": "Guaranteed"}, "koord-prod"),
    ],
)
def test_without_a_priority_class_the_class_of_service_tells_it(
    said: dict[str, str], like: str
) -> None:
    named = rank_of(meta(KOORDINATOR_PRIORITY_CLASS_LABEL=like)).priority_class

    assert rank_of(meta(**said)).priority_class == named
    assert rank_of(meta(MOVE_COST_ANNOTATION="1")).priority_class not in {
        rank_of(meta(KOORDINATOR_PRIORITY_CLASS_LABEL=name)).priority_class
        for name in ("koord-prod", "koord-batch")
    }


def test_an_object_that_says_nothing_has_no_rank() -> None:
    assert rank_of(ObjectMeta(name="a")) == NO_RANK
