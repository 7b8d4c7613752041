"""Facts about `sharder.core.preview.observe`: shards by their Leases, counts, and how even."""

from sharder.core.preview.observe import ObjectCount, members_of, states_of
from sharder.core.ring.snapshot import Role
from sharder.core.status.phases import ShardPhase
from tests.support.values import (
    CONFIGMAPS,
    NOW,
    SECRETS,
    A,
    lease,
    obj,
    ring,
    snapshot,
)


def test_children_are_counted_beside_main_objects() -> None:
    counted = ObjectCount(snapshot())

    counted.count(obj(SECRETS, "s", owner=A), Role.LEADING)
    for name in ("c", "d"):
        counted.count(obj(CONFIGMAPS, name, owner=A, controlled_by="s"), Role.CONTROLLED)

    assert (str(counted.all), counted.all.words) == ("1 +2", "1 object +2")
    assert str(counted.by_shard[A]) == "1 +2"


def test_what_nothing_controls_or_is_out_of_scope_is_not_counted() -> None:
    counted = ObjectCount(snapshot())

    counted.count(obj(CONFIGMAPS), Role.CONTROLLED)
    counted.count(obj(namespace="elsewhere"), Role.MAIN)

    assert not counted.all


def test_of_two_leases_of_one_name_the_healthier_one_is_shown() -> None:
    present = [lease(A), lease(A, holder="", namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.READY}


def test_of_two_shards_of_one_name_nothing_is_certain() -> None:
    present = [lease(A), lease(A, namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.MISSING}
