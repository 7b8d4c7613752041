"""Connect the watches of unassigned and draining objects, the hand-over, and one mover.

The leader runs this for all resources, with rights over Leases.  Any other replica stands by: it
hands over released objects of leading resources, a second later than the leader, and takes and
drains no objects.  No shard works on an unassigned object, and every write is guarded, so any
replica can assign the object to the shard in its `next`.  If the leader fails during a rebalance,
released objects do not wait for the next leader (docs/protocol.md, "What moves first").
"""

import asyncio

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.mover import Mover
from sharder.controllers.movement.orphan_watches import OrphanWatches
from sharder.controllers.ports import Ports


class HandoverLoop:
    """One mover for all writes, and the parts that hand over single objects with it."""

    def __init__(self, ports: Ports, lease_guard: LeaseGuard | None = None) -> None:
        """Connect the parts.

        `lease_guard` keeps shards from returning while their objects are taken; a replica that
        stands by takes none.
        """
        self._cache = ports.cache
        pending = HandoverQueue(ports)
        self.mover = Mover(ports, lease_guard, pending.retry)
        self.handover = Handover(ports, self.mover, pending)
        self.watches = OrphanWatches(ports, self.mover, pending, forget=self.handover.forget)

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        changed = self.watches.ring_changed
        subscriber = Subscriber(ring=changed, scope=lambda ring, _: changed(ring))
        with self._cache.subscribed(subscriber):
            async with asyncio.TaskGroup() as group:
                group.create_task(self.handover.run(), name="hand-over")
                group.create_task(self.watches.run(), name="watches")
