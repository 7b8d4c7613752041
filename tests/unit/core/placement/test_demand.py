"""Facts about `sharder.core.placement.demand`: what objects ask for, and which belong together."""

import pytest

from sharder.core.api.meta import LabelSelector, ObjectMeta, OwnerReference, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec
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
from sharder.core.placement.demand import MAX_MOVE_COST, MAX_PLACES, MAX_TRAITS, Demand, Reader
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


# Which objects belong together


WEB = {"app": "web"}


def grouping_by(by: GroupBy) -> Reader:
    return Reader(DEMO, PlacementSpec(group_by=by))


LABELS = grouping_by(GroupBy(labels=("app", "tier")))
SELECTORS = grouping_by(
    GroupBy(
        selectors=(
            LabelSelector(match_labels={"app": "web"}),
            LabelSelector(match_labels={"tier": "front"}),
        )
    )
)
OWNER = grouping_by(GroupBy(owner=True))


def an(
    labels: dict[str, str] | None = None, *, namespace: str = "default", owner: str = ""
) -> PartialObject:
    """An object; `owner` is the uid of its controller."""
    references = [OwnerReference(kind="Set", name="s", uid=owner, controller=True)]
    return PartialObject(
        metadata=ObjectMeta(
            name="o",
            namespace=namespace,
            labels=labels,
            owner_references=references if owner else None,
        )
    )


def counts_for(grouping: Reader, other: PartialObject, placed: PartialObject) -> bool:
    """Whether `other` is a member of the group that `placed` looks for."""
    return grouping.groups_of(placed)[-1] in grouping.groups_of(other)


def test_objects_of_two_namespaces_never_belong_together() -> None:
    for grouping in (LABELS, SELECTORS):
        assert not counts_for(grouping, an(WEB, namespace="other"), an(WEB))
    assert not counts_for(OWNER, an(owner="u", namespace="other"), an(owner="u"))


def test_traits_that_no_schema_has_bounded_make_no_groups_without_end() -> None:
    keys = tuple(f"key-{number}" for number in range(30))
    first, beyond = keys[:MAX_TRAITS], keys[: MAX_TRAITS + 1]
    grouping = grouping_by(GroupBy(labels=keys))

    assert len(grouping.groups_of(an(dict.fromkeys(keys, "x")))) == 2**MAX_TRAITS - 1
    assert counts_for(grouping, an(dict.fromkeys(first, "x")), an(dict.fromkeys(beyond, "x")))
