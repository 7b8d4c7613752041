"""Hand over what leads others and was let go, while another replica leads.

An object without owner is nobody's to work on and every write is guarded, so any replica may give
it away: if the leader fails in the middle of a rebalance, what was let go does not wait for the
next one.  The leader comes first, and nothing is taken from a shard here, nor is any asked
(docs/protocol.md, "What moves first").
"""

import asyncio
from collections import defaultdict

from sharder.controllers.cache import ClusterCache
from sharder.controllers.cache_events import Subscriber
from sharder.controllers.movement.drain_budget import DrainBudget
from sharder.controllers.movement.failures import Failures
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.mover import Counter, Mover
from sharder.controllers.movement.object_backlog import Size
from sharder.controllers.movement.orphans import Orphans
from sharder.controllers.movement.pending import PendingObjects
from sharder.controllers.movement.resync import Locks
from sharder.controllers.movement.watches import OrphanWatches
from sharder.controllers.permissions import Watching
from sharder.core.names import GroupResource, RingName
from sharder.core.ring.snapshot import Role
from sharder.ports import Objects
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock

LEADER_SECONDS = 0.8
"""The leader takes less, unless it is gone or has very much to do."""


class NoMetrics:
    """What the leader shows, and nobody else."""

    def failed(self, ring: RingName, resource: GroupResource) -> None:
        """Leave it to the leader."""

    def withheld(self, ring: RingName, limit: str) -> None:
        """Leave it to the leader."""

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Size, draining: Size
    ) -> None:
        """Leave it to the leader."""

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        """Leave it to the leader."""


def _ignore(*_about: object) -> None:
    """Tell nobody: the leader does."""


class StandBy:
    """The watches and the hand-over of leading resources alone, a second late and silent."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        counter: Counter,
        clock: Clock,
        rng: Rng,
        limit: int,
    ) -> None:
        """`limit` bounds the writes under way at once."""
        self._cache = cache
        locks: Locks = defaultdict(asyncio.Lock)
        metrics = NoMetrics()
        pending = PendingObjects(clock=clock, rng=rng, grace=LEADER_SECONDS)
        failures = Failures(
            clock=clock,
            rng=rng,
            recorder=None,
            counter=metrics,
            report=_ignore,
            retry=pending.retry,
        )
        drains = DrainBudget(counter=metrics, clock=clock)
        orphans = Orphans(clock)
        mover = Mover(
            cache=cache,
            objects=objects,
            lease_guard=None,
            leads=lambda: True,
            failures=failures,
            drains=drains,
            orphans=orphans,
            counter=counter,
            moved=_ignore,
            limit=limit,
        )
        self._hand_over = Handover(
            cache=cache,
            objects=objects,
            mover=mover,
            failures=failures,
            on_fault=_ignore,
            pending=pending,
            locks=locks,
            rng=rng,
        )
        self._exceptions = OrphanWatches(
            cache=cache,
            objects=objects,
            pending=pending,
            forget=self._hand_over.forget,
            watching=Watching(),
            on_change=_ignore,
            moved=_ignore,
            drains=drains,
            orphans=orphans,
            overdue=None,
            series=metrics,
            clock=clock,
            rng=rng,
            roles=(Role.LEADING,),
        )

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        subscriber = Subscriber(
            ring=self._exceptions.ring_changed,
            steps=_ignore,
            scope=lambda ring, _: self._exceptions.ring_changed(ring),
            lease=_ignore,
        )
        with self._cache.subscribed(subscriber):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hand_over.run(), name="hand-over")
                group.create_task(self._exceptions.run(), name="exceptions")
