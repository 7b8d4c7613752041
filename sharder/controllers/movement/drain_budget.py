"""Account for drains in the budget of their ring while they are written.

Every drain goes through here; other steps never wait (docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sharder.controllers.scope import ObjectKey
from sharder.core.errors import ApiError, SharderError, Unavailable
from sharder.core.movement.budget import Budget, Refusal
from sharder.core.movement.step import Drain, Step
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role


class DrainDeferred(SharderError):
    """The ring's budget is spent: the drain was not written."""

    def __init__(self, shard: ShardName, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.shard = shard
        """The shard of the drain."""
        self.limit = refusal.limit


@contextmanager
def within(
    budget: Budget[ObjectKey], snapshot: RingSnapshot, key: ObjectKey, step: Step
) -> Iterator[None]:
    """Account for the step that the body writes.

    A failed write returns its place in the budget, unless it might have succeeded, because its
    answer was lost or not awaited.

    Raises:
        DrainDeferred: the step is a drain, and the budget is spent.
    """
    if not isinstance(step, Drain):
        yield
        budget.gone(key)
        return
    leads = snapshot.roles[key.resource] is Role.LEADING
    refusal = budget.refusal(step.shard, snapshot.ring.spec.movement, leads=leads)
    if refusal is not None:
        raise DrainDeferred(step.shard, refusal)
    budget.begin(key, step.shard, leads=leads)
    is_written = True
    try:
        yield
    except ApiError as error:
        is_written = isinstance(error, Unavailable)
        raise
    finally:
        if is_written:
            budget.written(key)
        else:
            budget.give_back(key)
