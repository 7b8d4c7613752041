"""Check each ring's budget before a drain is written, and keep it up to date.

Every drain goes through here; other steps never wait (docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sharder.controllers.movement.backlog import Seen
from sharder.controllers.movement.ports import Ports
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.errors import ApiError, SharderError, Unavailable
from sharder.core.movement.budget import Budget, Leavers, Refusal
from sharder.core.movement.step import Drain, Step
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.clock import Clock


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
        self._leavers: dict[RingName, Leavers[ObjectKey]] = {}

    def refusal(self, snapshot: RingSnapshot, shard: ShardName) -> Refusal | None:
        """Return why the shard must not drain one more leading object now, None if it can.

        Other objects can be drained more often.
        """
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        refusal = self._of(snapshot.name).refusal(shard, limits, now)
        return refusal or self._leaving(snapshot.name).refusal(now)

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
                self._leaving(snapshot.name).end(key)

    def gone(self, key: ObjectKey) -> None:
        """Record that an object is deleted, or is no longer drained."""
        self._of(key.ring).closed(key)
        self._leaving(key.ring).end(key)

    def forget(self, ring: RingName) -> None:
        """Forget a deleted ring."""
        self._budgets.pop(ring, None)
        self._leavers.pop(ring, None)

    def of(self, resource_key: ResourceKey) -> "OpenDrains":
        """Return the observer that keeps the budget up to date with a resource's drains."""
        ring = resource_key.ring
        return OpenDrains(self._of(ring), self._leaving(ring), resource_key, self._clock)

    def _begin(self, snapshot: RingSnapshot, key: ObjectKey, shard: ShardName) -> None:
        """Take a place in the budget, or raise `DrainDeferred`."""
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        budget, leavers = self._of(snapshot.name), self._leaving(snapshot.name)
        leads = snapshot.roles[key.resource] is Role.LEADING
        refusal = budget.refusal(shard, limits, now)
        if refusal is None and leads:
            refusal = leavers.refusal(now)
        if refusal is not None:
            self._metrics.withheld(snapshot.name, refusal.limit)
            raise DrainDeferred(shard, refusal.why)
        budget.begin(key, shard)
        if leads:
            leavers.begin(key, now)

    def _leaving(self, ring: RingName) -> Leavers[ObjectKey]:
        return self._leavers.setdefault(ring, Leavers())

    def _of(self, ring: RingName) -> Budget[ObjectKey]:
        return self._budgets.setdefault(ring, Budget())


class OpenDrains:
    """Updates a ring's budget with what the watches show."""

    def __init__(
        self,
        budget: Budget[ObjectKey],
        leavers: Leavers[ObjectKey],
        resource_key: ResourceKey,
        clock: Clock,
    ) -> None:
        self._budget = budget
        self._leavers = leavers
        self._resource_key = resource_key
        self._clock = clock

    def noted(self, ref: ObjectRef, seen: Seen) -> None:
        """Record that an object is draining."""
        key, now = ObjectKey(self._resource_key, ref), self._clock.monotonic()
        self._budget.opened(key, seen.shard, seen.since, now)

    def dropped(self, ref: ObjectRef) -> None:
        """Record that an object is no longer draining."""
        self._budget.closed(ObjectKey(self._resource_key, ref))

    def arrived(self, ref: ObjectRef) -> None:
        """Record that an object has an owner again, or was deleted."""
        self._leavers.end(ObjectKey(self._resource_key, ref))

    def any(self) -> bool:
        """Return whether leading objects of the ring are between two shards."""
        return self._leavers.any(self._clock.monotonic())
