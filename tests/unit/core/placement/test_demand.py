"""Facts about `sharder.core.placement.demand`: what objects ask for."""

import pytest

from sharder.core.api.ring import GroupBy, PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import (
    LOAD_ANNOTATION,
    MOVE_COST_ANNOTATION,
    POOL_LABEL,
    REGION_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ZONE_LABEL,
    pin_label,
)
from sharder.core.placement.demand import (
    MAX_MOVE_COST,
    MAX_PLACES,
    NO_GROUP,
    Demand,
    Reader,
    identity_of,
)
from tests.support.values import DEMO, A, B, C, D, obj
from tests.support.values_placement import CONSISTENT, shard

PIN = pin_label(DEMO)


def read(labels: dict[str, str] | None, spec: PlacementSpec = CONSISTENT) -> Demand:
    return Reader(DEMO, spec).demand(obj(labels=labels), key="key", identity=1, current=A)


def mistakes(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> list[str]:
    return list(
        Reader(DEMO, PlacementSpec()).invalid_annotations(
            obj(labels=labels, annotations=annotations)
        )
    )


def test_an_object_without_labels_asks_for_nothing() -> None:
    assert read(None) == Demand("key", 1, A)


def test_an_object_may_ask_for_a_shard_a_pool_a_region_and_a_zone() -> None:
    labels = {PIN: B, POOL_LABEL: "p", WANTED_REGION_LABEL: "eu", WANTED_ZONE_LABEL: "eu-1"}

    assert read(labels) == Demand("key", 1, A, pin=B, region="eu", zone="eu-1", pool="p")


def test_the_pin_of_another_ring_is_none_of_ours() -> None:
    assert read({f"{PIN}-2": B}).pin is None


@pytest.mark.parametrize("pin", ["", "no label value", "x" * 64])
def test_a_pin_that_cannot_be_the_name_of_a_shard_counts_for_nothing(pin: str) -> None:
    assert read({PIN: pin}).pin is None


def test_the_topology_labels_of_an_object_count_if_the_ring_says_so() -> None:
    labels = {REGION_LABEL: "eu", ZONE_LABEL: "eu-1"}
    spec = PlacementSpec(use_topology_labels=True)

    assert (read(labels).region, read(labels).zone) == ("", "")
    assert (read(labels, spec).region, read(labels, spec).zone) == ("eu", "eu-1")


def test_explicit_requests_override_topology_labels() -> None:
    labels = {ZONE_LABEL: "eu-1", WANTED_ZONE_LABEL: "eu-2"}

    assert read(labels, PlacementSpec(use_topology_labels=True)).zone == "eu-2"


def test_the_group_is_read_as_the_ring_says() -> None:
    spec = PlacementSpec(group_by=GroupBy(labels=("app",)))
    reader = Reader(DEMO, spec)

    assert read({"app": "web"}).group == NO_GROUP
    assert read({"app": "web"}, spec).group != NO_GROUP
    assert reader.group_in_words(obj(labels={"app": "web"})) == ("label app=web",)
    assert reader.groups_of(obj(labels={"app": "web"})) == (read({"app": "web"}, spec).group,)


def test_a_ring_without_groups_has_none() -> None:
    reader = Reader(DEMO, CONSISTENT)

    assert reader.groups_of(obj(labels={"app": "web"})) == ()
    assert reader.group_in_words(obj(labels={"app": "web"})) == ()


def test_identities_differ_and_do_not_change() -> None:
    assert len({identity_of(f"/Secret/default/s-{number}") for number in range(10_000)}) == 10_000
    assert identity_of("") == 0x2D06800538D394C2


def test_an_object_without_annotations_has_no_invalid_ones() -> None:
    assert mistakes() == []


def test_valid_values_are_not_reported() -> None:
    labels = {PIN: A, POOL_LABEL: "p", WANTED_REGION_LABEL: "eu", WANTED_ZONE_LABEL: "eu-1"}
    annotations = {LOAD_ANNOTATION: "cpu=200m,memory=64Mi", MOVE_COST_ANNOTATION: "-7"}

    assert mistakes(labels, annotations) == []


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


@pytest.mark.parametrize("cost", [MAX_MOVE_COST, -MAX_MOVE_COST])
def test_the_greatest_costs_are_valid(cost: int) -> None:
    assert mistakes(annotations={MOVE_COST_ANNOTATION: str(cost)}) == []


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


def test_no_object_is_misplaced_while_all_shards_are_alike() -> None:
    assert where_misplaced([shard(A, zone="z"), shard(B, zone="z")]) == {}
    assert where_misplaced([]) == {}


def test_in_many_zones_all_objects_that_ask_for_one_are_read() -> None:
    zones = [shard(f"s{number}", zone=f"z{number}") for number in range(MAX_PLACES + 1)]
    names = [each.name for each in zones]
    topology = PlacementSpec(use_topology_labels=True)

    assert where_misplaced(zones) == {WANTED_ZONE_LABEL: names}
    assert where_misplaced(zones, topology) == {WANTED_ZONE_LABEL: names, ZONE_LABEL: names}
