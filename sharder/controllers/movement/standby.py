"""Hand over released objects of leading resources while another replica leads.

No shard works on an unassigned object, and every write is guarded, so any replica can assign the
object to the shard in its `next`.  If the leader fails during a rebalance, released objects do not
wait for the next leader.  The leader comes first, and only the leader takes, drains and redirects
objects (docs/protocol.md, "What moves first").
"""

from sharder.controllers.cache import ClusterCache
from sharder.controllers.cache_events import Subscriber
from sharder.controllers.movement.handover_loop import HandoverLoop, Observers
from sharder.controllers.permissions import Watching
from sharder.core.ring.snapshot import Role
from sharder.metrics.registry import Metrics
from sharder.ports import Journal, Objects
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock

LEADER_SECONDS = 0.8
"""Seconds before a standby hands over an object: the leader needs less, unless it is gone or very
busy."""


def _ignore(*_about: object) -> None:
    """Leave the report to the leader."""


class StandBy:
    """Hands over objects of leading resources, a second later than the leader, without reports."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        metrics: Metrics,
        journal: Journal,
        clock: Clock,
        rng: Rng,
        limit: int,
    ) -> None:
        """`limit` bounds the concurrent writes."""
        self._cache = cache
        self._loop = HandoverLoop(
            cache=cache,
            objects=objects,
            lease_guard=None,
            leads=lambda: True,
            watching=Watching(),
            observers=Observers(
                recorder=None,
                metrics=metrics,
                shows=False,
                journal=journal,
                overdue=None,
                on_fault=_ignore,
                on_unwritable=_ignore,
                on_written=_ignore,
                on_change=_ignore,
                moved=_ignore,
                on_assigned=lambda key, *move: journal.moved(key.ring, *move),
            ),
            clock=clock,
            rng=rng,
            limit=limit,
            roles=(Role.LEADING,),
            grace=LEADER_SECONDS,
        )

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        watches = self._loop.watches
        subscriber = Subscriber(
            ring=watches.ring_changed,
            steps=_ignore,
            scope=lambda ring, _: watches.ring_changed(ring),
            lease=_ignore,
        )
        with self._cache.subscribed(subscriber):
            await self._loop.run()
