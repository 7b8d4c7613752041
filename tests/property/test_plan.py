"""The promise of `core.movement.step`: an object never has two workers, and comes to rest."""

from typing import assert_never

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import PartialObject
from sharder.core.leases.membership import Standing
from sharder.core.movement import patches
from sharder.core.movement.acknowledgement import Writer
from sharder.core.movement.step import (
    Assign,
    Drain,
    Keep,
    Position,
    Relabel,
    Release,
    Send,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.property.strategies import few_shards, places, snapshots
from tests.support.json_patch import admitted, written
from tests.support.values import (
    DRAIN,
    NEXT,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    members,
    obj,
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

main_resources = st.sampled_from([WIDGETS, SECRETS])
objects = st.builds(
    obj,
    main_resources,
    st.sampled_from([f"w-{number}" for number in range(8)]),
    owner=places,
    drain=st.sampled_from([None, None, "true", ""]),
    annotations=st.none() | st.fixed_dictionaries({NEXT: few_shards}),
)


def resource_of(of: PartialObject) -> GroupResource:
    return SECRETS if of.kind == "Secret" else WIDGETS


def step_for(of: PartialObject, by: RingSnapshot) -> Step:
    role = by.roles[resource_of(of)]
    desired = by.wanted(by.key_of(of, role))
    return next_step(position_of(by, of, desired), by.members, role)


def carried_out(of: PartialObject, step: Step, by: RingSnapshot) -> PartialObject:
    """The object after the sharder has done what was decided."""
    match step:
        case Keep():
            return of
        case Assign(shard) | Relabel(shard):
            return written(of, patches.assign(by, of.metadata, shard))
        case Drain():
            return written(of, patches.drain(by, of))
        case Withdraw():
            return written(of, patches.withdraw(by, of.metadata))
        case Send(shard):
            return written(of, patches.send(by, of.metadata, shard))
        case Release():
            return written(of, patches.release(by, of.metadata))
    assert_never(step)


def acknowledged(of: PartialObject, by: RingSnapshot) -> PartialObject:
    """The object after its shard has acknowledged the drain, and admission has seen it."""
    after = written(of, patches.acknowledge(of.metadata, owner_label=OWNER, drain_label=DRAIN))
    writer = Writer(
        username="system:serviceaccount:elsewhere:operator", pod_name=of.metadata.label(OWNER)
    )
    review = Review(operation="UPDATE", resource=resource_of(of), obj=after, old=of, writer=writer)
    return admitted(after, decide(review, by, frozenset()).operations)


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


@given(objects, snapshots)
def test_a_step_that_is_carried_out_is_not_decided_again(
    of: PartialObject, by: RingSnapshot
) -> None:
    step = step_for(of, by)

    once = carried_out(of, step, by)

    assert isinstance(step_for(once, by), Keep)
    assert carried_out(once, step, by) == once


@given(objects, snapshots)
def test_an_object_comes_to_rest_after_two_steps_and_one_acknowledgement(
    of: PartialObject, by: RingSnapshot
) -> None:
    asked = carried_out(of, step_for(of, by), by)
    drained = isinstance(step_for(of, by), Drain)
    free = acknowledged(asked, by) if drained else asked

    resting = carried_out(free, step_for(free, by), by)

    assert isinstance(step_for(resting, by), Keep)
    owner = by.owner_of(resting)
    if by.members.available and by.members.standing_of(owner or A) is Standing.AVAILABLE:
        assert not drained or not by.is_draining(resting)
    if drained:
        assert owner in by.members.available


@given(objects, snapshots)
def test_planning_never_leaves_an_object_on_a_shard_that_is_gone(
    of: PartialObject, by: RingSnapshot
) -> None:
    after = carried_out(of, step_for(of, by), by)

    owner = by.owner_of(after)
    if by.members.available:
        assert owner is not None
        assert by.members.standing_of(owner) is not Standing.GONE
