"""A controller is rolled out, shard by shard: how often does an object move?

Nothing here decides: the steps are those of the planner, the answers those of the webhook.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.movement import patches
from sharder.core.movement.acknowledgement import Writer
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import (
    keep_priority_of,
    plan_displaced,
    plan_main,
    reservation_of,
)
from sharder.core.movement.step import Assign, Drain, Step, Withdraw
from sharder.core.names import ShardName
from sharder.core.placement.distribution import LeastDrawn
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.json_patch import admitted, written
from tests.support.values import WIDGETS, obj
from tests.support.values_placement import BOUNDED, CONSISTENT, RENDEZVOUS, shard
from tests.support.values_steering import LEAST, SPREAD, known, steered

SHARDS, OBJECTS, MAX_PASSES = 5, 100, 20
USER = Writer(username="user")


class Rollout:
    """A ring, its objects, and how often each has moved; steps are carried out at once."""

    def __init__(self, spec: PlacementSpec, *, revised: bool) -> None:
        self.moves = Counter[str]()
        self._spec = spec
        self._revised = revised
        self._shards = [self._named("old", number) for number in range(SHARDS)]
        self._ring = self._changed()
        names = [f"w-{number}" for number in range(SHARDS * OBJECTS)]
        self._objects = {name: self._created(obj(WIDGETS, name)) for name in names}

    def by_shard(self) -> dict[str, int]:
        """Return how many objects each shard has."""
        return Counter(str(self._ring.owner_of(found)) for found in self._objects.values())

    def replace_all(self) -> None:
        """Replace one shard after the other; an old one leaves when it has nothing left."""
        for number, leaving in enumerate(self._shards.copy()):
            self._become(*self._shards, self._named("new", number))
            staying = [each for each in self._shards if each.name != leaving.name]
            self._become(*staying, shard(leaving.name, revision=leaving.revision, evacuating=True))
            assert leaving.name not in self.by_shard()
            self._become(*staying)

    def _named(self, of: str, number: int) -> Shard:
        revision = of if self._revised else ""
        return shard(f"{of}-{number}", revision=revision, since=float(of == "new"))

    def _changed(self, previous: RingSnapshot | None = None) -> RingSnapshot:
        return steered(*self._shards, spec=self._spec, previous=previous)

    def _become(self, *shards: Shard) -> None:
        """Let the shards be these, and pass over the ring until there is nothing to do."""
        self._shards = list(shards)
        self._ring = self._changed(self._ring)
        for _ in range(MAX_PASSES):
            if not self._pass():
                return
        raise AssertionError("the ring does not come to rest")

    def _pass(self) -> bool:
        """Pass over the ring once; return whether there was anything to do."""
        changed = False
        for found in list(self._objects.values()):
            changed |= self._carry_out(found, plan_main(self._ring, found))
        for name, many in excess_of(self._ring).items():
            for found in self._displaced(name, many):
                changed |= self._carry_out(found, plan_displaced(self._ring, found, name))
        return changed

    def _displaced(self, name: ShardName, many: int) -> Iterable[PartialObject]:
        leaving = LeastDrawn[PartialObject](many)
        for found in self._objects.values():
            if self._ring.owner_of(found) == name:
                leaving.offer(keep_priority_of(self._ring, found, name), found)
        return leaving.items()

    def _carry_out(self, found: PartialObject, step: Step) -> bool:
        """Write what the step asks for; a shard acknowledges at once."""
        reservation = reservation_of(self._ring, found, step)
        if reservation is not None and self._ring.tally is not None:
            self._ring.tally.assume(reservation)
        if isinstance(step, Drain):
            self._store(
                self._acknowledge(written(found, patches.drain(self._ring, found, step.to)))
            )
            self.moves[found.metadata.name] += 1
        elif isinstance(step, Withdraw):
            self._store(written(found, patches.withdraw(*self._at(found))))
        elif isinstance(step, Assign):
            self._store(written(found, patches.assign(*self._at(found), step.shard)))
        return isinstance(step, Drain | Withdraw | Assign)

    def _at(self, found: PartialObject) -> tuple[RingSnapshot, ObjectMeta]:
        return self._ring, found.metadata

    def _acknowledge(self, draining: PartialObject) -> PartialObject:
        known(self._ring, draining)
        labels = {"owner_label": self._ring.owner_label, "drain_label": self._ring.drain_label}
        released = written(draining, patches.acknowledge(draining.metadata, **labels))
        return self._answered(released, draining)

    def _created(self, new: PartialObject) -> PartialObject:
        return known(self._ring, self._answered(new, None))

    def _answered(self, new: PartialObject, old: PartialObject | None) -> PartialObject:
        review = Review(
            operation="CREATE" if old is None else "UPDATE",
            resource=WIDGETS,
            obj=new,
            old=old,
            writer=USER,
        )
        decision = decide(review, self._ring, frozenset())
        assert decision.assigned is not None
        return admitted(new, decision.operations)

    def _store(self, found: PartialObject) -> None:
        self._objects[found.metadata.name] = known(self._ring, found)


@cache
def moves_per_object(spec: PlacementSpec, *, revised: bool) -> tuple[float, Rollout]:
    rollout = Rollout(spec, revised=revised)
    rollout.replace_all()
    return rollout.moves.total() / (SHARDS * OBJECTS), rollout


@pytest.mark.parametrize("spec", [BOUNDED, SPREAD, LEAST], ids=lambda spec: spec.strategy)
def test_with_a_strategy_that_sticks_each_object_moves_once(spec: PlacementSpec) -> None:
    moves, rollout = moves_per_object(spec, revised=True)

    assert moves <= 1.05
    assert sum(rollout.by_shard().values()) == SHARDS * OBJECTS


def test_after_a_rollout_bounded_load_is_as_even_as_before() -> None:
    _, rollout = moves_per_object(BOUNDED, revised=True)

    many = rollout.by_shard().values()
    assert len(many) == SHARDS
    assert max(many) - min(many) <= 1


@pytest.mark.parametrize("spec", [CONSISTENT, RENDEZVOUS], ids=lambda spec: spec.strategy)
def test_with_a_strategy_that_follows_objects_move_less_often_if_shards_say_their_revision(
    spec: PlacementSpec, record_property: Callable[[str, object], None]
) -> None:
    said, unsaid = (moves_per_object(spec, revised=revised)[0] for revised in (True, False))
    record_property("moves_per_object", {"with revisions": said, "without": unsaid})

    assert said < unsaid
