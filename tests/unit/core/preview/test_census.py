"""Facts about `sharder.core.preview.observe`: who is counted, and how even the counts are."""

import pytest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.leases.membership import Standing
from sharder.core.preview.observe import ObjectCount, imbalance
from sharder.core.ring.snapshot import Role
from tests.support.values import CONFIGMAPS, WIDGETS, A, B, C, members, obj, snapshot


def test_objects_are_counted_per_shard() -> None:
    census = ObjectCount(snapshot())

    for name, owner, drain in [("x", A, None), ("y", A, "true"), ("z", B, None)]:
        census.count(obj(WIDGETS, name, owner=owner, drain=drain), Role.MAIN)

    assert census.by_shard == {A: 2, B: 1}
    assert census.draining.total() == 1
    assert (census.objects, census.unassigned, census.unowned) == (3, 0, 0)


def test_an_object_is_unowned_without_owner_or_with_one_that_is_gone() -> None:
    census = ObjectCount(snapshot(members({A: Standing.AVAILABLE, B: Standing.MISSING})))

    for owner in (None, A, B, C):
        census.count(obj(owner=owner), Role.MAIN)

    assert (census.objects, census.unassigned, census.unowned) == (4, 1, 2)


def test_what_nothing_controls_or_is_out_of_scope_is_not_counted() -> None:
    census = ObjectCount(snapshot())

    census.count(obj(CONFIGMAPS), Role.CONTROLLED)
    census.count(obj(namespace="elsewhere"), Role.MAIN)

    assert census.objects == 0


@pytest.mark.parametrize(("name", "is_in"), [("default", True), ("elsewhere", False)])
def test_a_namespace_is_in_scope_if_it_is_selected_itself(name: str, is_in: bool) -> None:
    namespace = PartialObject(api_version="v1", kind="Namespace", metadata=ObjectMeta(name=name))

    assert snapshot().selects(namespace) is is_in


def test_cluster_scoped_objects_are_always_in_scope() -> None:
    assert snapshot().selects(obj(namespace=""))


@pytest.mark.parametrize(
    ("counts", "ratio"),
    [({A: 2, B: 2}, 1.0), ({A: 3, B: 1}, 1.5), ({A: 4}, 2.0), ({C: 4}, None), ({}, None)],
)
def test_imbalance_is_the_fullest_over_the_mean(
    counts: dict[str, int], ratio: float | None
) -> None:
    by_shard = {shard: counts[shard] for shard in (A, B, C) if shard in counts}

    assert imbalance(by_shard, (A, B)) == ratio


def test_there_is_no_imbalance_without_shards() -> None:
    assert imbalance({A: 1}, ()) is None
