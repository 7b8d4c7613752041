"""The promise of the whole protocol: whatever happens, no object ever has two workers.

And once the world calms down every object is where it belongs, and no shard has too many.  The
laws stand in `model.laws`, `model.view`, `model.ceilings` and `model.rest`; `test_model.py` shows
that they bite.
"""

from hypothesis import settings

from tests.property.model.account import drains
from tests.property.model.counted import Counted
from tests.property.model.machine import Protocol
from tests.property.model.world import NAMES, PERSON, PLACES, World
from tests.support.values_placement import bounded

TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)

TestCounted = Counted.TestCase
TestCounted.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


def test_drains_are_needed_while_withdrawals_that_are_not_shown_yet_exceed_a_ceiling() -> None:
    world = World(skews={}, placement=bounded())
    world.shards[NAMES[0]].start()
    world.let_pass(2)
    for place in PLACES:
        world.create(*place, {}, writer=PERSON)
    pass_with_capacity(world, 1)
    world.let_pass(1)
    world.sharders[0].counting.is_slow = True
    draining = [pass_with_capacity(world, 3), pass_with_capacity(world, 2)]
    world.sharders[0].counting.show_all()
    world.go_on_without_shards()

    # What is only assumed to stay is not drained before the watch shows it.
    assert draining == [2, 2]
    assert how_many_drain(world) == 3


def pass_with_capacity(world: World, most: int) -> int:
    """Let the first sharder pass over a ring with that ceiling; return how many drain then."""
    world.set_capacity(most)
    world.let_pass(1)
    world.go_on_without_shards()
    return how_many_drain(world)


def how_many_drain(world: World) -> int:
    return sum(map(drains, world.cluster.objects.values()))
