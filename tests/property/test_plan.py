"""The promise of `core.movement.step`: an object never has two workers."""

from sharder.core.leases.membership import Standing
from sharder.core.movement.step import (
    Assign,
    Drain,
    Keep,
    Position,
    Relabel,
    Release,
    Send,
    Withdraw,
    next_step,
)
from sharder.core.ring.snapshot import Role
from tests.support.values import (
    A,
    B,
    members,
)

EVERY_CASE = [
    (Position(current=current, desired=desired, draining=draining), standing, role)
    for current in (A, None)
    for desired in (A, B, None)
    for draining in (True, False)
    for standing in Standing
    for role in Role
]
"""All that a step depends on: there are no more cases than these."""


def test_an_object_is_never_taken_from_a_shard_that_may_be_working_on_it() -> None:
    for position, standing, role in EVERY_CASE:
        step = next_step(position, members({A: standing}), role)

        if position.current is not None and standing is not Standing.GONE:
            assert not isinstance(step, Assign)
            assert role is Role.CONTROLLED or not isinstance(step, Relabel)


def test_only_shards_that_work_are_asked_and_only_once() -> None:
    for position, standing, role in EVERY_CASE:
        step = next_step(position, members({A: standing}), role)

        if isinstance(step, Drain):
            assert step.shard == position.current
            assert standing in {Standing.AVAILABLE, Standing.LEAVING}
            assert not position.draining
            assert role is not Role.CONTROLLED


def test_every_step_leads_to_where_the_object_belongs() -> None:
    for position, standing, role in EVERY_CASE:
        match next_step(position, members({A: standing}), role):
            case Assign(shard) | Relabel(shard):
                assert shard == position.desired
            case Withdraw():
                assert position.current == position.desired
            case Drain() | Keep() | Send() | Release():
                pass
