"""A ring whose steps are carried out at once, until there is nothing to do.

Nothing here decides: the steps are those of the planner, the answers those of the webhook.
"""

from collections import Counter
from collections.abc import Iterable

from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import PartialObject
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
from sharder.core.placement.displacement import LowestPriorities
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.json_patch import admitted, written
from tests.support.values import WIDGETS
from tests.support.values_steering import known

MAX_PASSES = 40
USER = Writer(username="user")


class Resting:
    """A ring, its objects by name, and how often each was drained."""

    def __init__(self, ring: RingSnapshot) -> None:
        self.ring = ring
        self.objects: dict[str, PartialObject] = {}
        self.moves = Counter[str]()

    def create(self, new: PartialObject) -> None:
        """Create an object, with the owner that the webhook gives to it."""
        self.store(self._answered(new, None))

    def store(self, found: PartialObject) -> None:
        """Write an object that the webhook is not asked about."""
        self.objects[found.metadata.name] = known(self.ring, found)

    def settle(self) -> None:
        """Pass over the ring until there is nothing to do."""
        for _ in range(MAX_PASSES):
            if not self._pass():
                return
        raise AssertionError("the ring does not come to rest")

    def displaced(self, name: ShardName, many: int) -> Iterable[PartialObject]:
        """Return the objects that a shard has too many."""
        leaving = LowestPriorities[PartialObject](many)
        for found in self.objects.values():
            if self.ring.owner_of(found) == name:
                leaving.offer(keep_priority_of(self.ring, found, name), found)
        return leaving.items()

    def carry_out(self, found: PartialObject, step: Step) -> bool:
        """Write what the step asks for; a shard acknowledges at once."""
        reservation = reservation_of(self.ring, found, step)
        if reservation is not None and self.ring.tally is not None:
            self.ring.tally.assume(reservation)
        meta = found.metadata
        match step:
            case Drain():
                self._acknowledge(written(found, patches.drain(self.ring, found, step.to)))
                self.moves[meta.name] += 1
            case Withdraw():
                self.store(written(found, patches.withdraw(self.ring, meta)))
            case Assign():
                self.store(written(found, patches.assign(self.ring, meta, step.shard)))
            case _:
                return False
        return self.objects[meta.name] != found

    def _pass(self) -> bool:
        changed = [
            self.carry_out(found, plan_main(self.ring, found))
            for found in list(self.objects.values())
        ]
        for name, many in excess_of(self.ring).items():
            changed += [
                self.carry_out(found, plan_displaced(self.ring, found, name))
                for found in self.displaced(name, many)
            ]
        return any(changed)

    def _acknowledge(self, draining: PartialObject) -> None:
        known(self.ring, draining)
        labels = {"owner_label": self.ring.owner_label, "drain_label": self.ring.drain_label}
        released = written(draining, patches.acknowledge(draining.metadata, **labels))
        self.store(self._answered(released, draining))

    def _answered(self, new: PartialObject, old: PartialObject | None) -> PartialObject:
        review = Review(
            operation="CREATE" if old is None else "UPDATE",
            resource=WIDGETS,
            obj=new,
            old=old,
            writer=USER,
        )
        return admitted(new, decide(review, self.ring, frozenset()).operations)
