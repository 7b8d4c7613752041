"""Facts about `sharder.core.movement.step`: the one next step of an object."""

from collections.abc import Sequence

import pytest

from sharder.core.leases.membership import Standing
from sharder.core.movement.step import (
    Assign,
    Drain,
    Keep,
    Position,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import Role
from tests.support.values import A, B, available, members, obj, snapshot

MAINS, ALL, BOTH = (Role.MAIN, Role.LEADING), tuple(Role), (False, True)
AVAILABLE, LEAVING, MISSING, GONE = (
    Standing.AVAILABLE, Standing.LEAVING, Standing.MISSING, Standing.GONE,
)  # fmt: skip
ACKNOWLEDGE = Keep("waiting for its shard to acknowledge the drain")
MIGHT_WORK = Keep("its shard is missing and might still be working")

# The shard that has it, its standing, whether it drains, its role; all belong on B.
CASES: dict[
    str,
    tuple[Sequence[ShardName | None], Sequence[Standing], Sequence[bool], Sequence[Role], Step],
] = {
    "one without owner is assigned": ([None], [AVAILABLE], BOTH, ALL, Assign(B)),
    "one in its place is kept": ([B], [AVAILABLE], [False], ALL, Keep("in place")),
    "a drain of one in its place is withdrawn": ([B], [AVAILABLE], [True], ALL, Withdraw()),
    "one on a working shard is drained": ([A], [AVAILABLE, LEAVING], [False], MAINS, Drain(A)),
    "one that drains waits": ([A], [AVAILABLE, LEAVING], [True], MAINS, ACKNOWLEDGE),
    "a missing shard keeps what it has": ([A], [MISSING], BOTH, MAINS, MIGHT_WORK),
    "one of a shard that is gone is assigned": ([A], [GONE], BOTH, ALL, Assign(B)),
    "a controlled one follows without a drain": (
        [A], [AVAILABLE, LEAVING, MISSING], BOTH, [Role.CONTROLLED], Assign(B),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_step_of_an_object(case: str) -> None:
    shards, standings, drains, roles, expected = CASES[case]

    steps: set[Step] = {
        next_step(
            Position(current=current, desired=B, draining=draining),
            members({B: AVAILABLE, current or A: standing}),
            role,
        )
        for current in shards
        for standing in standings
        for draining in drains
        for role in roles
    }

    assert steps == {expected}


@pytest.mark.parametrize("current", [None, A])
def test_nothing_is_done_while_no_shard_is_available(current: ShardName | None) -> None:
    position = Position(current=current, desired=None)

    assert {next_step(position, available(), role) for role in Role} == {
        Keep("no shard is available")
    }


@pytest.mark.parametrize(("stranger", "step"), [(MISSING, MIGHT_WORK), (GONE, Assign(B))])
def test_a_stranger_keeps_its_objects_while_it_might_be_working(
    stranger: Standing, step: Step
) -> None:
    unsure = members({B: AVAILABLE}, stranger=stranger)

    assert next_step(Position(current=A, desired=B), unsure) == step


def test_a_position_is_read_off_the_labels() -> None:
    draining = position_of(snapshot(), obj(owner=A, drain=""), B)
    bare = position_of(snapshot(), obj(owner=""), None)

    assert draining == Position(current=A, desired=B, draining=True)
    assert bare == Position(current=None, desired=None, draining=False)
