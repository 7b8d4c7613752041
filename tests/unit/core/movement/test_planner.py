"""Facts about `core.movement.planner`: whole rings, and children that follow their parents."""

from functools import partial

import pytest

from sharder.core.api.meta import PartialObject
from sharder.core.leases.membership import Standing
from sharder.core.movement.planner import (
    Parents,
    plan_controlled,
    plan_handover,
    plan_main,
    plan_owned,
)
from sharder.core.movement.step import Assign, Disown, Drain, Keep, Send, Step, Withdraw
from sharder.core.names import RECALLED, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import CONFIGMAPS, NEXT, SECRETS, A, B, C, members, named, obj, snapshot
from tests.support.values import D as GONE

secret = partial(obj, SECRETS)
BOTH = snapshot()


def ring(**standings: Standing) -> RingSnapshot:
    """The ring with shard-a, shard-b … in these standings; strangers are gone."""
    known = {ShardName(f"shard-{letter}"): standing for letter, standing in standings.items()}
    return snapshot(members(known))


def child(parent: str | None, shard: ShardName | None, drain: str | None = None) -> PartialObject:
    return obj(CONFIGMAPS, "child", owner=shard, drain=drain, controlled_by=parent)


def belonging_to(shard: ShardName, by: RingSnapshot) -> str:
    """A Secret's name that the ring wants on `shard`."""
    return named(SECRETS, shard, by)


def plan_pair(
    snapshot: RingSnapshot, parent: PartialObject, follower: PartialObject
) -> tuple[Step, Step]:
    """The steps of a parent and of its child, as a resync finds them."""
    parents = Parents()
    step = plan_main(snapshot, parent)
    parents.note(snapshot, parent)
    return step, plan_controlled(snapshot, follower, parents)


@pytest.mark.parametrize(
    ("owner", "to", "step"),
    [
        (C, None, Send),
        (C, B, Send),
        (None, GONE, Send),
        (None, None, Assign),
        (None, B, Assign),
        (A, None, Drain),
    ],
)
def test_an_object_is_sent_unless_it_is_on_its_way_to_where_it_belongs(
    owner: ShardName | None, to: ShardName | None, step: type[Step]
) -> None:
    annotations: dict[str, str] = {NEXT: to} if to else {}
    parent = secret(belonging_to(B, BOTH), owner=owner, annotations=annotations)

    planned = plan_handover(BOTH, parent)

    assert isinstance(planned, step)
    assert not isinstance(planned, Send | Assign) or planned.shard == B


def test_a_shard_that_returns_has_to_release_an_object_that_an_older_sharder_recalled() -> None:
    for shard in (A, B):
        recalled = secret(belonging_to(B, BOTH), owner=shard, drain=RECALLED)
        assert isinstance(plan_main(BOTH, recalled), Keep)


def test_an_object_that_was_released_since_it_was_listed_is_left_to_the_hand_over() -> None:
    assert isinstance(plan_owned(BOTH, secret("s")), Keep)
    assert plan_owned(BOTH, secret(belonging_to(B, BOTH), owner=A)) == Drain(A)


NOWHERE = Keep("no shard is available")
WAITING = Keep("waiting for its shard to acknowledge the drain")
MISSING = Keep("its shard is missing and might still be working")
IN_PLACE, CLOSED = Keep("in place"), Keep("the shard of its controller gets no new objects")
# The parent belongs on A; where it is, where its child is, and the steps of both.
PAIRS = {
    "a child stays with a parent that is drained": (B, B, Drain(B), IN_PLACE),
    "a child stays with a parent that drains": (f"{B}*", B, WAITING, IN_PLACE),
    "a child comes to the parent that is drained": (B, A, Drain(B), Assign(B)),
    "a child comes to the parent in place, without a drain": (A, B, IN_PLACE, Assign(A)),
    "a child waits until its parent leaves a lost shard": (GONE, GONE, Assign(A), NOWHERE),
    "a child waits until its parent has a shard": (None, B, Assign(A), NOWHERE),
    "a drain of a child is withdrawn with the parent": (B, f"{B}*", Drain(B), Withdraw()),
    "a drain of a parent in place is withdrawn": (f"{A}*", A, Withdraw(), IN_PLACE),
    "a child waits while its parent is on a missing shard": (C, A, MISSING, CLOSED),
    "a child without shard waits likewise": (C, None, MISSING, CLOSED),
    "a child stays on the missing shard of its parent": (C, C, MISSING, IN_PLACE),
}


@pytest.mark.parametrize("case", PAIRS)
def test_parent_and_child(case: str) -> None:
    of_parent, of_child, *steps = PAIRS[case]
    snapshot = ring(a=Standing.AVAILABLE, b=Standing.AVAILABLE, c=Standing.MISSING)
    name = belonging_to(A, snapshot)
    places = [ShardName(where.rstrip("*")) if where else None for where in (of_parent, of_child)]
    drains = ["true" if (where or "").endswith("*") else None for where in (of_parent, of_child)]
    parent = secret(name, owner=places[0], drain=drains[0])

    assert [*plan_pair(snapshot, parent, child(name, places[1], drains[1]))] == steps


def test_a_child_waits_while_the_shard_of_its_parent_is_leaving() -> None:
    snapshot = ring(a=Standing.AVAILABLE, c=Standing.LEAVING)

    name = belonging_to(A, snapshot)

    _, step = plan_pair(snapshot, secret(name, owner=C), child(name, A))

    assert step == CLOSED


def test_children_of_a_parent_that_is_not_there_go_where_its_key_hashes() -> None:
    step = plan_controlled(BOTH, child(belonging_to(A, BOTH), None), Parents())

    assert step == Assign(A)


def test_an_object_that_nothing_controls_loses_its_owner_and_gets_none() -> None:
    assert plan_controlled(BOTH, child(None, A), Parents()) == Disown()
    assert plan_controlled(BOTH, child(None, None), Parents()) == Keep("it has no controller")


def test_nothing_moves_while_no_shard_is_available() -> None:
    steps = plan_pair(ring(), secret("any", owner=A), child("any", A))

    assert steps == (NOWHERE, NOWHERE)


def test_parents_in_place_are_not_remembered() -> None:
    name, parents = belonging_to(B, BOTH), Parents()

    parents.note(ring(a=Standing.AVAILABLE), secret(name, owner=A))

    assert parents.shard_for(BOTH, child(name, None)) == B


def test_an_object_that_nothing_controls_belongs_to_no_shard() -> None:
    assert Parents().shard_for(BOTH, child(None, A)) is None


# Directed objects


def directed(to: ShardName, owner: ShardName | None, drain: str | None = None) -> PartialObject:
    """A Secret that belongs on A, and that was sent elsewhere."""
    return secret(belonging_to(A, BOTH), owner=owner, drain=drain, annotations={NEXT: to})


def test_a_drain_towards_another_shard_is_wanted() -> None:
    assert plan_main(BOTH, secret(belonging_to(A, BOTH), owner=A, drain="true")) == Withdraw()
    assert plan_main(BOTH, directed(B, A, "true")) == WAITING


@pytest.mark.parametrize("towards", [A, C])
def test_a_drain_towards_its_own_shard_or_one_that_is_not_there_is_withdrawn(
    towards: ShardName,
) -> None:
    assert plan_main(BOTH, directed(towards, A, "true")) == Withdraw()


def test_an_object_without_owner_goes_where_it_was_sent() -> None:
    assert plan_main(BOTH, directed(B, None)) == Assign(B)


def test_a_direction_without_a_drain_moves_nothing_and_is_removed() -> None:
    assert plan_main(BOTH, directed(B, A)) == Withdraw()
