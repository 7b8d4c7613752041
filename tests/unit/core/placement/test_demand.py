"""Facts about `sharder.core.placement.demand`: what objects ask for."""

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import (
    LOAD_ANNOTATION,
    MOVE_COST_ANNOTATION,
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ZONE_LABEL,
    pin_label,
)
from sharder.core.placement.demand import MAX_MOVE_COST, MAX_PLACES, Demand, Reader
from tests.support.values import DEMO, A, B, C, D, obj
from tests.support.values_placement import CONSISTENT, shard


def read(labels: dict[str, str] | None, spec: PlacementSpec = CONSISTENT) -> Demand:
    return Reader(DEMO, spec).demand(obj(labels=labels), key="key", identity=1, current=A)


PIN = pin_label(DEMO)


def mistakes(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> list[str]:
    return list(
        Reader(DEMO, PlacementSpec()).invalid_annotations(
            obj(labels=labels, annotations=annotations)
        )
    )


@pytest.mark.parametrize("key", [PIN, POOL_LABEL, WANTED_REGION_LABEL, WANTED_ZONE_LABEL])
def test_an_empty_label_is_invalid(key: str) -> None:
    assert mistakes({key: ""}) == [
        f"the label {key} is ignored: it is empty or not a valid label value"
    ]


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (LOAD_ANNOTATION, "much", "'much' is not of the form resource=quantity"),
        (LOAD_ANNOTATION, "", "'' is not of the form resource=quantity"),
        (MOVE_COST_ANNOTATION, "1.5", "'1.5' is not an integer"),
        (MOVE_COST_ANNOTATION, "", "'' is not an integer"),
        (MOVE_COST_ANNOTATION, "--1", "'--1' is not an integer"),
        (MOVE_COST_ANNOTATION, "٣", "'٣' is not an integer"),
        (MOVE_COST_ANNOTATION, "9" * 30, f"'{'9' * 20}' is not an integer"),
        (
            MOVE_COST_ANNOTATION,
            str(2**31),
            f"2147483648 is not between -{MAX_MOVE_COST} and {MAX_MOVE_COST}",
        ),
    ],
)
def test_an_annotation_that_cannot_be_parsed_is_invalid(key: str, text: str, why: str) -> None:
    assert mistakes(annotations={key: text}) == [f"the annotation {key} is ignored: {why}"]


def where_misplaced(shards: list[Shard], spec: PlacementSpec = CONSISTENT) -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for names, labels in Reader(DEMO, spec).misplaced_on(shards):
        found.setdefault(labels, []).extend(names)
    return found


def test_objects_are_found_by_what_they_ask_for_and_their_shards_lack() -> None:
    shards = [shard(A, pool="p"), shard(B, pool="q"), shard(C), shard(D, pool="q")]

    assert where_misplaced(shards) == {
        f"{POOL_LABEL},{POOL_LABEL}!=p": [A],
        f"{POOL_LABEL},{POOL_LABEL}!=q": [B, D],
        POOL_LABEL: [C],
    }


def test_in_many_zones_all_objects_that_ask_for_one_are_read() -> None:
    zones = [shard(f"s{number}", zone=f"z{number}") for number in range(MAX_PLACES + 1)]
    names = [each.name for each in zones]
    topology = PlacementSpec(use_topology_labels=True)

    assert where_misplaced(zones) == {WANTED_ZONE_LABEL: names}
    assert where_misplaced(zones, topology) == {WANTED_ZONE_LABEL: names, ZONE_LABEL: names}


@pytest.mark.parametrize("cost", [MAX_MOVE_COST, -MAX_MOVE_COST])
def test_the_greatest_costs_are_valid(cost: int) -> None:
    assert mistakes(annotations={MOVE_COST_ANNOTATION: str(cost)}) == []


@pytest.mark.parametrize("pin", ["", "no label value", "x" * 64])
def test_a_pin_that_cannot_be_the_name_of_a_shard_counts_for_nothing(pin: str) -> None:
    assert read({PIN: pin}).pin is None
