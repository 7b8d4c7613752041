"""Check each ring's budget before a drain is written, and keep it up to date.

Every drain goes through here; other steps never wait (docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey
from sharder.core.errors import ApiError, SharderError, Unavailable
from sharder.core.movement.budget import Budget, Refusal
from sharder.core.movement.step import Drain, Step
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role


class DrainDeferred(SharderError):
    """The ring's budget is spent: the drain was not written."""

    def __init__(self, shard: ShardName, why: str) -> None:
        super().__init__(why)
        self.shard = shard
        """The shard of the drain."""


class DrainBudget:
    """The budgets of all rings."""

    def __init__(self, ports: Ports) -> None:
        self._withheld = ports.metrics.counts["drains_withheld_total"]
        self._clock = ports.clock
        self._budgets: dict[RingName, Budget[ObjectKey]] = {}

    def refusal(
        self, snapshot: RingSnapshot, shard: ShardName, *, leads: bool = True
    ) -> Refusal | None:
        """Return why the shard must not drain one more object now, None if it can.

        Objects that lead no others can be drained more often.
        """
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        return self._of(snapshot.name).refusal(shard, limits, now, leads=leads)

    @contextmanager
    def writing(self, snapshot: RingSnapshot, key: ObjectKey, step: Step) -> Iterator[None]:
        """Account for the step that the body writes.

        A failed write returns its place in the budget, unless it might have succeeded, because its
        answer was lost or not awaited.

        Raises:
            DrainDeferred: the step is a drain, and the budget is spent.
        """
        if not isinstance(step, Drain):
            yield
            self.gone(key)
            return
        leads = snapshot.roles[key.resource] is Role.LEADING
        refusal = self.refusal(snapshot, step.shard, leads=leads)
        if refusal is not None:
            self._withheld.add(snapshot.name, refusal.limit)
            raise DrainDeferred(step.shard, refusal.why)
        budget, is_written = self._of(snapshot.name), True
        budget.begin(key, step.shard, self._clock.monotonic(), leads=leads)
        try:
            yield
        except ApiError as error:
            is_written = isinstance(error, Unavailable)
            raise
        finally:
            if is_written:
                budget.written(key, self._clock.monotonic())
            else:
                budget.give_back(key)

    def opened(self, key: ObjectKey, shard: ShardName, since: float) -> None:
        """Record that the watch shows a draining object."""
        self._of(key.ring).opened(key, shard, since, self._clock.monotonic())

    def closed(self, key: ObjectKey) -> None:
        """Record that the watch shows the end of a drain."""
        self._of(key.ring).closed(key)

    def arrived(self, key: ObjectKey) -> None:
        """Record that an object has an owner again, or was deleted."""
        self._of(key.ring).arrived(key)

    def gone(self, key: ObjectKey) -> None:
        """Record that an object is deleted, or is no longer drained."""
        self._of(key.ring).closed(key)
        self._of(key.ring).arrived(key)

    def is_handing_over(self, ring: RingName) -> bool:
        """Return whether leading objects of the ring are between two shards."""
        return self._of(ring).is_handing_over(self._clock.monotonic())

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._budgets.pop(ring, None)

    def _of(self, ring: RingName) -> Budget[ObjectKey]:
        return self._budgets.setdefault(ring, Budget())
