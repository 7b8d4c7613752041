"""Check each ring's budget before a drain is written, and keep it up to date.

Every drain goes through here; other steps never wait (docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sharder.controllers.movement.backlog import Seen
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


class Sent:
    """Whether a write was sent: if its answer is lost, its result is unknown."""

    def __init__(self) -> None:
        self.is_sent = False

    def now(self) -> None:
        """Record that the write is sent."""
        self.is_sent = True


class DrainBudget:
    """The budgets of all rings."""

    def __init__(self, ports: Ports) -> None:
        self._metrics = ports.metrics
        self._clock = ports.clock
        self._budgets: dict[RingName, Budget[ObjectKey]] = {}

    def refusal(self, snapshot: RingSnapshot, shard: ShardName) -> Refusal | None:
        """Return why the shard must not drain one more leading object now, None if it can.

        Other objects can be drained more often.
        """
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        return self._of(snapshot.name).refusal(shard, limits, now, leads=True)

    @contextmanager
    def begun(self, snapshot: RingSnapshot, key: ObjectKey, step: Step) -> Iterator[Sent]:
        """Account for the step that the body writes.

        A failed write returns its place in the budget, unless it might have succeeded, because its
        answer was lost or not awaited.

        Raises:
            DrainDeferred: the step is a drain, and the budget is spent.
        """
        sent, budget = Sent(), self._of(snapshot.name)
        if not isinstance(step, Drain):
            yield sent
            if sent.is_sent:
                self.gone(key)
            return
        self._begin(snapshot, key, step.shard)
        try:
            yield sent
        except ApiError as error:
            sent.is_sent = sent.is_sent and isinstance(error, Unavailable)
            raise
        finally:
            if sent.is_sent:
                budget.written(key, self._clock.monotonic())
            else:
                budget.give_back(key)

    def _begin(self, snapshot: RingSnapshot, key: ObjectKey, shard: ShardName) -> None:
        """Take a place in the budget, or raise `DrainDeferred`."""
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        budget, leads = self._of(snapshot.name), snapshot.roles[key.resource] is Role.LEADING
        refusal = budget.refusal(shard, limits, now, leads=leads)
        if refusal is not None:
            self._metrics.withheld(snapshot.name, refusal.limit)
            raise DrainDeferred(shard, refusal.why)
        budget.begin(key, shard, now, leads=leads)

    def seen(self, key: ObjectKey, drain: Seen | None) -> None:
        """Record what the watch shows: a draining object, or None at the end of its drain."""
        budget = self._of(key.ring)
        if drain is None:
            budget.closed(key)
        else:
            budget.opened(key, drain.shard, drain.since, self._clock.monotonic())

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
