"""Ask each ring's budget before a drain is written, and keep it up to date.

Every drain goes through here, whoever wants it; what is no drain is never kept waiting
(docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sharder.controllers.movement.backlog import Seen
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.errors import ApiError, SharderError, Unavailable
from sharder.core.movement.budget import Budget, Leavers, Refusal
from sharder.core.movement.step import Drain, Step
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.clock import Clock


class DrainDeferred(SharderError):  # noqa: N818 - reads as a fact, like the others
    """The ring's budget is spent: the drain was not written, and may be later."""

    def __init__(self, shard: ShardName, why: str) -> None:
        super().__init__(why)
        self.shard = shard
        """Who would have been asked."""


class DeferredCounter(Protocol):
    """Counts what was withheld."""

    def withheld(self, ring: RingName, limit: str) -> None:
        """A drain was refused by this limit."""
        ...


class Sent:
    """Whether a write is on its way, so that a lost answer leaves open what it did."""

    def __init__(self) -> None:
        self.is_sent = False

    def now(self) -> None:
        """Note that the write is sent."""
        self.is_sent = True


class DrainBudget:
    """The budgets of all rings."""

    def __init__(self, *, counter: DeferredCounter, clock: Clock) -> None:
        self._counter = counter
        self._clock = clock
        self._budgets: dict[RingName, Budget[ObjectKey]] = {}
        self._leavers: dict[RingName, Leavers[ObjectKey]] = {}

    def refusal(self, snapshot: RingSnapshot, shard: ShardName) -> Refusal | None:
        """Return why the shard may not be asked to let go of one more that leads others.

        None if it may; what leads none may be asked for more often.
        """
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        refusal = self._of(snapshot.name).refusal(shard, limits, now)
        return refusal or self._leaving(snapshot.name).refusal(now)

    @contextmanager
    def begun(self, snapshot: RingSnapshot, key: ObjectKey, step: Step) -> Iterator[Sent]:
        """Account for the step that the body writes.

        A write that failed gives its place back, unless it may have been carried out all the
        same: its answer was lost, or not waited for.

        Raises:
            Withheld: it is a drain, and there is no room for it.
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
        """Note that an object is not there any more, or has nobody to let go of it."""
        self._of(key.ring).closed(key)
        self._leaving(key.ring).end(key)

    def forget(self, ring: RingName) -> None:
        """Drop what is known of a ring that is gone."""
        self._budgets.pop(ring, None)
        self._leavers.pop(ring, None)

    def of(self, resource_key: ResourceKey) -> "OpenDrains":
        """Return what keeps the budget up to date with a resource's drains, as they are seen."""
        ring = resource_key.ring
        return OpenDrains(self._of(ring), self._leaving(ring), resource_key, self._clock)

    def _begin(self, snapshot: RingSnapshot, key: ObjectKey, shard: ShardName) -> None:
        """Take a place for a drain, or raise `DrainDeferred`."""
        limits, now = snapshot.ring.spec.movement, self._clock.monotonic()
        budget, leavers = self._of(snapshot.name), self._leaving(snapshot.name)
        leads = snapshot.roles[key.resource] is Role.LEADING
        refusal = budget.refusal(shard, limits, now)
        if refusal is None and leads:
            refusal = leavers.refusal(now)
        if refusal is not None:
            self._counter.withheld(snapshot.name, refusal.limit)
            raise DrainDeferred(shard, refusal.why)
        budget.begin(key, shard)
        if leads:
            leavers.begin(key, shard, now)

    def _leaving(self, ring: RingName) -> Leavers[ObjectKey]:
        return self._leavers.setdefault(ring, Leavers())

    def _of(self, ring: RingName) -> Budget[ObjectKey]:
        return self._budgets.setdefault(ring, Budget())


class OpenDrains:
    """Tells a ring's budget what the watches see."""

    def __init__(
        self,
        budget: Budget[ObjectKey],
        leavers: Leavers[ObjectKey],
        resource_key: ResourceKey,
        clock: Clock,
    ) -> None:
        self._budget = budget
        self._leavers = leavers
        self._flow = resource_key
        self._clock = clock

    def noted(self, ref: ObjectRef, seen: Seen) -> None:
        """An object is being drained."""
        key, now = ObjectKey(self._flow, ref), self._clock.monotonic()
        self._budget.opened(key, seen.shard, seen.since, now)

    def dropped(self, ref: ObjectRef) -> None:
        """It is not any more."""
        self._budget.closed(ObjectKey(self._flow, ref))

    def seen_over(self, ref: ObjectRef) -> None:
        """A watch has shown that its drain is over."""
        self._leavers.seen_over(ObjectKey(self._flow, ref))

    def arrived(self, ref: ObjectRef) -> None:
        """It has an owner again, or is gone."""
        self._leavers.end(ObjectKey(self._flow, ref))

    def asked(self, ref: ObjectRef) -> ShardName | None:
        """Return the shard lately asked for an object that leads others, None if there is none.

        None as well once a watch has shown the end of its drain.
        """
        return self._leavers.shard(ObjectKey(self._flow, ref), self._clock.monotonic())

    def any(self) -> bool:
        """Tell whether objects of the ring that lead others are on their way."""
        return self._leavers.any(self._clock.monotonic())
