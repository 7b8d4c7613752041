"""Facts about `sharder.core.movement.step`: the one next step of an object."""

import pytest

from sharder.core.leases.membership import Standing
from sharder.core.movement.step import (
    Assign,
    Drain,
    Keep,
    Position,
    Relabel,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import Role
from tests.support.values import A, B, C, available, members, obj, snapshot

MAIN_ROLES = [Role.MAIN, Role.LEADING]


def step_of(
    current: ShardName | None,
    desired: ShardName | None,
    standing: Standing = Standing.AVAILABLE,
    *,
    draining: bool = False,
    role: Role = Role.MAIN,
) -> Step:
    """The step of an object on `current`, which is in this standing."""
    known = {A: standing, B: Standing.AVAILABLE}
    position = Position(current=current, desired=desired, draining=draining)
    return next_step(position, members(known), role)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("draining", [False, True])
@pytest.mark.parametrize("current", [None, A, C])
def test_nothing_is_done_while_no_shard_is_available(
    current: ShardName | None, draining: bool, role: Role
) -> None:
    position = Position(current=current, desired=None, draining=draining)

    assert next_step(position, available(), role) == Keep("no shard is available")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("draining", [False, True])
def test_an_object_without_owner_is_assigned(role: Role, draining: bool) -> None:
    assert step_of(None, B, draining=draining, role=role) == Assign(B)


@pytest.mark.parametrize("role", Role)
def test_an_object_in_its_place_is_kept(role: Role) -> None:
    assert step_of(B, B, role=role) == Keep("in place")


@pytest.mark.parametrize("role", Role)
def test_a_drain_of_an_object_in_its_place_is_withdrawn(role: Role) -> None:
    assert step_of(B, B, draining=True, role=role) == Withdraw()


@pytest.mark.parametrize("role", MAIN_ROLES)
@pytest.mark.parametrize("standing", [Standing.AVAILABLE, Standing.LEAVING])
def test_an_object_on_a_working_shard_is_drained_first(standing: Standing, role: Role) -> None:
    assert step_of(A, B, standing, role=role) == Drain(A)


@pytest.mark.parametrize("role", MAIN_ROLES)
@pytest.mark.parametrize("standing", [Standing.AVAILABLE, Standing.LEAVING])
def test_a_draining_object_waits_for_its_shard(standing: Standing, role: Role) -> None:
    step = step_of(A, B, standing, draining=True, role=role)

    assert step == Keep("waiting for its shard to acknowledge the drain")


@pytest.mark.parametrize("role", MAIN_ROLES)
@pytest.mark.parametrize("draining", [False, True])
def test_a_missing_shard_keeps_what_it_has(role: Role, draining: bool) -> None:
    step = step_of(A, B, Standing.MISSING, draining=draining, role=role)

    assert step == Keep("its shard is missing and might still be working")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("draining", [False, True])
@pytest.mark.parametrize("current", [A, C], ids=["known", "stranger"])
def test_the_objects_of_a_shard_that_is_gone_are_assigned_at_once(
    current: ShardName, draining: bool, role: Role
) -> None:
    step = step_of(current, B, Standing.GONE, draining=draining, role=role)

    assert step == Assign(B)


def test_the_objects_of_a_stranger_that_may_be_working_are_kept() -> None:
    unsure = members({B: Standing.AVAILABLE}, stranger=Standing.MISSING)

    step = next_step(Position(current=C, desired=B), unsure)

    assert step == Keep("its shard is missing and might still be working")


@pytest.mark.parametrize("draining", [False, True])
@pytest.mark.parametrize("standing", [Standing.AVAILABLE, Standing.LEAVING, Standing.MISSING])
def test_a_controlled_object_follows_its_owner_without_a_drain(
    standing: Standing, draining: bool
) -> None:
    step = step_of(A, B, standing, draining=draining, role=Role.CONTROLLED)

    assert step == Relabel(B)


def test_a_position_is_read_off_the_labels() -> None:
    draining = position_of(snapshot(), obj(owner=A, drain=""), B)
    bare = position_of(snapshot(), obj(owner=""), None)

    assert draining == Position(current=A, desired=B, draining=True)
    assert bare == Position(current=None, desired=None, draining=False)
